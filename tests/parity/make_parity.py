#!/usr/bin/python3
"""Makes tests/parity/data/*.safetensors: inputs, and what PyTorch computes from them in double precision.

    /usr/bin/python3 tests/parity/make_parity.py

Needs python3-torch; building and testing qkv does not: the files are committed. Each file holds cases "0.", "1.", ...; names
with ".in." are inputs (f32, so that both sides start from the same numbers) and are hashed into the metadata; the others are
results, and their names are those the C tests ask for. "cases" in the metadata is a JSON list with the shapes of every case.
"""
import json
import math
import os
import sys

import numpy
import torch
import torch.nn.functional as F

sys.dont_write_bytecode = True
import safetensors_file
import reference

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


class Maker:
    """Collects the tensors of one file."""

    def __init__(self, name, seed):
        self.name, self.tensors, self.cases = name, {}, []
        self.random = numpy.random.RandomState(seed)

    def case(self, **shape):
        self.cases.append(shape)
        return str(len(self.cases) - 1) + "."

    def give(self, name, array):
        """Stores an input as f32 and returns what was stored, in double."""
        array = numpy.asarray(array, numpy.float32)
        self.tensors[name] = array
        return torch.tensor(array.astype(numpy.float64), requires_grad=True)

    def normal(self, name, *shape, scale=1.0, shift=0.0):
        return self.give(name, self.random.randn(*shape) * scale + shift)

    def whole(self, name, array):
        self.tensors[name] = numpy.asarray(array, numpy.int32)
        return torch.tensor(self.tensors[name].astype(numpy.int64))

    def keep(self, name, tensor):
        self.tensors[name] = tensor.detach().numpy().astype(numpy.float32)

    def write(self):
        metadata = {"format": "pt", "made_by": "tests/parity/make_parity.py", "torch": torch.__version__,
                    "inputs_sha256": safetensors_file.hash_inputs(self.tensors), "cases": json.dumps(self.cases)}
        path = os.path.join(FOLDER, self.name + ".safetensors")
        safetensors_file.write(path, self.tensors, metadata)
        print(f"{path}: {len(self.cases)} cases, {os.path.getsize(path)} bytes")


def offsets(lengths):
    return [0] + [int(x) for x in numpy.cumsum(lengths)]


def make_attention():
    m = Maker("attention", 1)
    cases = [
        dict(q=[7], heads=2, kv_heads=2, dim=8),
        dict(q=[33], heads=4, kv_heads=2, dim=16, right=0),
        dict(q=[50], heads=4, kv_heads=1, dim=8, left=3, right=2),
        dict(q=[0, 1, 5, 40, 17], heads=3, kv_heads=3, dim=20, value_dim=12),
        dict(q=[3, 1, 4, 0], k=[9, 5, 4, 3], heads=2, kv_heads=1, dim=8, right=0),
        dict(q=[6], k=[3], heads=1, kv_heads=1, dim=8, right=0),
        dict(q=[150], heads=1, kv_heads=1, dim=16),
        dict(q=[150], heads=1, kv_heads=1, dim=16, right=0),
        dict(q=[150], heads=1, kv_heads=1, dim=12, left=70, right=0, value_dim=3),
        dict(q=[19, 33], heads=6, kv_heads=3, dim=5, value_dim=7, left=0, right=40),
        dict(q=[1, 2, 3], heads=2, kv_heads=2, dim=1, value_dim=1),
        dict(q=[37, 2], heads=2, kv_heads=2, dim=8, alibi=[0.25, 0.0625]),
        dict(q=[21], heads=2, kv_heads=2, dim=8, softcap=2.0, right=0),
        dict(q=[29], heads=2, kv_heads=1, dim=8, softcap=5.0, alibi=[0.5, 0.125], left=9, right=4, scale=0.7),
        dict(q=[24], heads=1, kv_heads=1, dim=8, spread=12.0),  # scores of some hundreds
    ]
    for c in cases:
        c = dict(dict(k=c["q"], left=-1, right=-1, value_dim=c["dim"], softcap=0.0, scale=1 / math.sqrt(c["dim"]), alibi=[],
                      spread=1.0), **c)
        p = m.case(**c)
        nq, nk, spread = sum(c["q"]), sum(c["k"]), c.pop("spread")
        q = m.normal(p + "in.q", nq, c["heads"] * c["dim"], scale=spread)
        k = m.normal(p + "in.k", nk, c["kv_heads"] * c["dim"], scale=spread)
        v = m.normal(p + "in.v", nk, c["kv_heads"] * c["value_dim"])
        dout = m.normal(p + "in.dout", nq, c["heads"] * c["value_dim"])
        out, lse = reference.attention(q, k, v, offsets(c["q"]), offsets(c["k"]), c["heads"], c["kv_heads"], c["left"], c["right"],
                                       c["scale"], c["softcap"], c["alibi"])
        out.backward(dout)
        scores = q.detach().reshape(-1, c["dim"]) @ k.detach().reshape(-1, c["dim"]).T
        m.cases[-1]["largest_score"] = c["scale"] * float(scores.abs().max())
        m.keep(p + "out", out)
        m.keep(p + "lse", lse)
        for name, x in (("dq", q), ("dk", k), ("dv", v)):
            m.keep(p + name, x.grad)
    m.write()


def make_norm():
    m = Maker("norm", 2)
    for rms in (False, True):
        for rows, cols, bias, epsilon, scale, shift in ((5, 32, True, 1e-5, 1, 0), (3, 100, True, 1e-12, 3, -2), (1, 7, True, 1e-5, 1, 0),
                                                        (40, 24, False, 1e-5, 1, 0.5), (2, 16, True, 1e-5, 1e-3, 0),
                                                        (2, 300, False, 1e-6, 1, 10)):
            p = m.case(rows=rows, cols=cols, bias=bias, rms=rms, epsilon=epsilon)
            x = m.normal(p + "in.x", rows, cols, scale=scale, shift=shift)
            gain = m.normal(p + "in.gain", cols, scale=0.3, shift=1)
            beta = m.normal(p + "in.bias", cols, scale=0.5) if bias else None
            dout = m.normal(p + "in.dout", rows, cols)
            if rms:
                y = reference.rms_norm(x, gain, beta, epsilon)
            else:
                y = F.layer_norm(x, (cols,), gain, beta, epsilon)
            y.backward(dout)
            m.keep(p + "out", y)
            m.keep(p + "dx", x.grad)
            m.keep(p + "dgain", gain.grad)
            if bias:
                m.keep(p + "dbias", beta.grad)
    m.write()


def make_activation():
    m = Maker("activation", 3)
    for act in ("gelu", "gelu_tanh", "relu", "silu", "geglu", "swiglu"):
        gated = act in reference.GATED
        rows, cols = (12, 20) if gated else (3, 240)
        p = m.case(act=act, rows=rows, cols=cols)
        if gated:
            x = m.normal(p + "in.x", rows, 2 * cols, scale=2)
        else:
            grid = numpy.linspace(-12, 12, 2 * cols)
            x = m.give(p + "in.x", numpy.concatenate([grid, self_similar(cols)]).reshape(rows, cols))
        dout = m.normal(p + "in.dout", rows, cols)
        y = reference.activation(act, x)
        y.backward(dout)
        m.keep(p + "out", y)
        m.keep(p + "dx", x.grad)
    m.write()


def self_similar(count):
    """Both signs, from 1e-6 to 100."""
    half = numpy.logspace(-6, 2, (count + 1) // 2)
    return numpy.concatenate([-half, half])[:count]


def make_loss():
    m = Maker("loss", 4)
    for rows, classes, smoothing, scale, spread in ((1, 1, 0.0, 1.0, 1), (7, 5, 0.0, 1 / 7, 1), (7, 5, 0.1, 1 / 7, 1), (4, 44, 0.1, 0.25, 3),
                                                    (3, 333, 0.2, 2.0, 1), (5, 2, 0.0, 1.0, 60), (5, 3, 0.3, 1.0, 60), (2, 10, 1.0, 1.0, 1)):
        p = m.case(rows=rows, classes=classes, smoothing=smoothing, scale=scale)
        logits = m.normal(p + "in.logits", rows, classes, scale=spread)
        target = m.whole(p + "in.target", m.random.randint(0, classes, rows))
        loss = F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="none")
        (loss.sum() * scale).backward()
        m.keep(p + "loss", loss)
        m.keep(p + "dlogits", logits.grad)
    m.write()


def give_parameters(m, prefix, shapes):
    """Random values of a size that leaves no part of the network idle."""
    p = {}
    for name, shape in shapes.items():
        gain = "norm" in name and name.endswith(".weight")
        scale = 0.5 if len(shape) == 1 else 1 / math.sqrt(shape[1]) if not name.startswith(("embedding", "position")) else 0.7
        p[name] = m.normal(prefix + "in." + name, *shape, scale=0.3 if gain else scale, shift=1.0 if gain else 0.0)
    return p


BLOCK = dict(dim=16, heads=4, kv_heads=4, head_dim=4, ffn=24, norm="layer", activation="gelu", norm_place="pre", bias=True, left=-1,
             right=-1, norm_epsilon=1e-5, residual="plain", qk_norm=False, softcap=0.0, unscaled=False, depth=1)


def make_block():
    m = Maker("block", 5)
    for change in (dict(), dict(norm_place="post", right=0), dict(norm="rms", activation="swiglu", bias=False, kv_heads=2, left=2, right=1),
                   dict(norm="rms", norm_place="post", activation="geglu", kv_heads=1), dict(dim=20, heads=3, kv_heads=1, head_dim=6, activation="relu"),
                   dict(activation="gelu_tanh", bias=False, left=3, right=0), dict(dim=13, heads=1, kv_heads=1, head_dim=13, ffn=7, activation="silu"),
                   dict(norm_place="sandwich", kv_heads=2, right=0), dict(norm_place="sandwich", norm="rms", bias=False, qk_norm=True),
                   dict(qk_norm=True, kv_heads=2, head_dim=6, left=4, right=0), dict(norm_place="post", residual="deepnorm", depth=7),
                   dict(softcap=0.7, unscaled=True, kv_heads=1), dict(residual="none", softcap=2.0, qk_norm=True),
                   dict(norm_place="post", residual="none", activation="swiglu")):
        c = dict(BLOCK, lengths=[5, 0, 9, 1, 3])
        c.update(change)
        prefix, offset = m.case(**c), offsets(c["lengths"])
        p = give_parameters(m, prefix, reference.block_shapes("encoder.0.", c))
        x = m.normal(prefix + "in.x", offset[-1], c["dim"])
        dout = m.normal(prefix + "in.dout", offset[-1], c["dim"])
        y = reference.block(x, p, "encoder.0.", offset, c)
        y.backward(dout)
        m.keep(prefix + "out", y)
        m.keep(prefix + "dx", x.grad)
        for name, value in p.items():
            m.keep(prefix + "grad." + name, value.grad)
    m.write()


def decays(name):
    return name.endswith(".weight") and "norm" not in name and not name.startswith(("embedding", "position"))


def clip(p, limit):
    """Scales the gradients down to the limit; their norm before that."""
    norm = math.sqrt(sum(float((v.grad ** 2).sum()) for v in p.values()))
    for v in p.values():
        v.grad *= limit / norm if norm > limit else 1.0
    return norm


def train(m, prefix, p, c):
    """c["steps"] steps of PyTorch's own AdamW, each on a batch of its own; keeps what the C side compares."""
    o = c["optimizer"]
    groups = [dict(params=[v for n, v in p.items() if n.startswith(("embedding", "position")) == rows and decays(n) == decay],
                   weight_decay=o["decay"] if decay else 0.0, key="embedding_lr" if rows else "lr")
              for rows in (False, True) for decay in (False, True)]
    adamw = torch.optim.AdamW([g for g in groups if g["params"]], betas=(o["beta1"], o["beta2"]), eps=o["epsilon"])
    offset, losses, norms = offsets(c["lengths"]), [], []
    for step in range(c["steps"]):
        ids = m.whole(f"{prefix}in.ids.{step}", m.random.randint(0, c["vocab"], offset[-1]))
        target = m.whole(f"{prefix}in.target.{step}", m.random.randint(0, c["classes"], len(c["lengths"])))
        logits = reference.classifier(ids, p, offset, c)
        loss = F.cross_entropy(logits, target, label_smoothing=c["smoothing"])
        adamw.zero_grad(set_to_none=True)
        loss.backward()
        if step == 0:
            m.keep(prefix + "logits", logits)
            for name, value in p.items():
                m.keep(prefix + "grad." + name, value.grad)
        losses.append(float(loss))
        norms.append(clip(p, o["clip"]))
        for group in adamw.param_groups:
            group["lr"] = o[group["key"]] * o["factors"][step]
        adamw.step()
    m.keep(prefix + "losses", torch.tensor(losses))
    m.keep(prefix + "norms", torch.tensor(norms))
    for name, value in p.items():
        m.keep(prefix + "final." + name, value)


def make_classifier():
    m = Maker("classifier", 6)
    # epsilon is large, because the gradient of the keys' bias is 0 but for rounding, which AdamW would blow up to whole steps.
    optimizer = dict(lr=2e-3, embedding_lr=1e-2, beta1=0.9, beta2=0.98, epsilon=1e-4, decay=0.1, clip=1.0,
                     factors=[0.5, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    base = dict(BLOCK, layers=2, vocab=40, classes=5, max_length=12, position="learned", pooling="attention", lengths=[5, 12, 0, 1, 7, 3],
                smoothing=0.1, optimizer=optimizer, steps=10)
    for change in (dict(), dict(norm_place="post", position="sinusoidal", pooling="mean", dim=15, heads=3, kv_heads=1, head_dim=5, smoothing=0.0),
                   dict(norm="rms", activation="swiglu", bias=False, position="none", pooling="max", kv_heads=2, left=2, right=2, steps=1),
                   dict(pooling="first", activation="geglu", right=0, classes=3, layers=1, steps=1)):
        c = dict(base)
        c.update(change)
        prefix = m.case(**c)
        train(m, prefix, give_parameters(m, prefix, reference.classifier_shapes(c)), c)
    m.write()


def main():
    os.makedirs(FOLDER, exist_ok=True)
    torch.set_num_threads(1)
    makers = {name[5:]: f for name, f in globals().items() if name.startswith("make_")}
    for name in sys.argv[1:] or makers:
        makers[name]()


if __name__ == "__main__":
    main()
