#!/usr/bin/python3
"""Layers that others trained, as cases of test_recurrent.c: the LSTM cell of Silero VAD and the bidirectional LSTM of g2pM.

    /usr/bin/python3 tests/parity/trained.py FOLDER_OF_MODELS OUT_FOLDER

Weights are the models', what goes in is random; what comes out is PyTorch's. Exits with 77 where there is nothing to read."""
import os
import pickle
import sys

try:
    import numpy
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_parity
import safetensors_file
from make_recurrent import add


def layer(weights_ih, weights_hh, biases):
    values = {"encoder.0.input.weight": numpy.concatenate(weights_ih), "encoder.0.input.bias": numpy.concatenate(biases)}
    for name, w in zip(("forth", "back"), weights_hh):
        values[f"encoder.0.{name}.weight"] = w
    return dict(values=values, cell="lstm", units=weights_hh[0].shape[1], directions=len(weights_hh), **{"in": weights_ih[0].shape[1]})


def silero(path):
    t, _ = safetensors_file.read(path)
    return layer([t["lstm_cell.weight_ih"]], [t["lstm_cell.weight_hh"]], [t["lstm_cell.bias_ih"] + t["lstm_cell.bias_hh"]])


class Arrays(pickle.Unpickler):
    """Nothing but arrays."""

    def find_class(self, module, name):
        if module.split(".")[0] != "numpy":
            raise pickle.UnpicklingError(f"{module}.{name}")
        return super().find_class(module, name)


def g2pm(path):
    with open(path, "rb") as f:
        t = Arrays(f).load()
    ends = ("_l0", "_l0_reverse")
    find = {k.split(".")[-1]: numpy.asarray(v) for k, v in t.items() if "l0" in k}
    if not find:
        raise KeyError(f"{path}: {sorted(t)}")
    return layer([find["weight_ih" + e] for e in ends], [find["weight_hh" + e] for e in ends],
                 [find["bias_ih" + e] + find["bias_hh" + e] for e in ends])


def main():
    models, out = sys.argv[1:]
    found = [(f, os.path.join(models, name)) for f, name in ((silero, "silero_vad_16k.safetensors"), (g2pm, "g2pM/np_ckpt.pkl"))]
    found = [(f, path) for f, path in found if os.path.exists(path)]
    if not found:
        print(f"skipped: no trained layers in {models}")
        sys.exit(77)
    torch.set_num_threads(1)
    make_parity.FOLDER = out
    m = make_parity.Maker("trained", 13)
    for f, path in found:
        add(m, lengths=[31, 0, 7, 64, 1], **f(path))
    m.write()


if __name__ == "__main__":
    main()
