#!/usr/bin/python3
"""Makes tests/parity/data/recurrent.safetensors and recurrent_onnx.safetensors: recurrent layers, what goes in, what comes out, and
all gradients, in double precision.

    /usr/bin/python3 tests/parity/make_recurrent.py            # both
    /usr/bin/python3 tests/parity/make_recurrent.py recurrent

The first holds PyTorch's LSTM, GRU and RNN over packed sequences, and the cells that PyTorch has not as loops written here. The
second holds, without gradients, the cases that ONNX tests its operators with: it reads them from Debian's package libonnx-testdata, computes them by the
loops here, and refuses to write what does not agree with the package's own outputs.
"""
import glob
import os
import struct
import sys

import numpy
import torch

sys.dont_write_bytecode = True
from make_parity import Maker, offsets

GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3, "gru_before": 3}
ONNX = "/usr/share/libonnx-testdata/data/node"


# ---- the cells, one step at a time (the formulas of src/ops/recurrence.h) ----

def walk(cell, x, weight, candidate, vector, h, c):
    """x [n, gates * units]: what comes from below, biases included; h, c: before the first step. Returns h of every step, and the last c."""
    units = weight.shape[1]
    out = []
    for row in x:
        a = weight @ h
        if cell in ("tanh", "relu"):
            h = torch.tanh(row + a) if cell == "tanh" else torch.relu(row + a)
        elif cell == "lstm":
            i, f, g, o = (row + a).split(units)
            pi, pf, po = vector.split(units) if vector is not None else (0, 0, 0)
            i, f = torch.sigmoid(i + pi * c), torch.sigmoid(f + pf * c)
            c = f * c + i * torch.tanh(g)
            h = torch.sigmoid(o + po * c) * torch.tanh(c)
        else:
            xr, xz, xn = row.split(units)
            ar, az = a[:2 * units].split(units)
            r, z = torch.sigmoid(xr + ar), torch.sigmoid(xz + az)
            n = torch.tanh(xn + (r * (a[2 * units:] + vector) if cell == "gru" else candidate @ (r * h)))
            h = (1 - z) * n + z * h
        out.append(h)
    return torch.stack(out) if out else torch.zeros(0, units, dtype=torch.float64), c


def layer_loop(cell, x, p, prefix, offset, directions, start=None):
    """start: h and c before the first step, [sequences, directions * units] each. Returns the rows and the last c."""
    y = x @ p[prefix + "input.weight"].T + p[prefix + "input.bias"]
    wide, units = y.shape[1] // directions, p[prefix + "forth.weight"].shape[1]
    zeros = torch.zeros(len(offset) - 1, directions * units, dtype=torch.float64)
    h0, c0 = start or (zeros, zeros)
    sides, lasts = [], []
    for k, name in enumerate(("forth", "back")[:directions]):
        of = prefix + name + "."
        vector = p.get(of + ("bias" if cell == "gru" else "peepholes"))
        rows, last = [], []
        for s, (begin, end) in enumerate(zip(offset, offset[1:])):
            part, mine = y[begin:end, k * wide:(k + 1) * wide], slice(k * units, (k + 1) * units)
            h, c = walk(cell, part.flip(0) if k else part, p[of + "weight"], p.get(of + "candidate"), vector, h0[s, mine], c0[s, mine])
            rows.append(h.flip(0) if k else h)
            last.append(c)
        sides.append(torch.cat(rows))
        lasts.append(torch.stack(last))
    return torch.cat(sides, 1), torch.cat(lasts, 1)


# ---- PyTorch's own ----

def layer_torch(cell, x, p, prefix, offset, directions, start=None):
    """The same by torch.nn over packed sequences; those without rows are left out. Not for autograd through p: copies."""
    units = p[prefix + "forth.weight"].shape[1]
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(cell, torch.nn.RNN)
    more = {"nonlinearity": cell} if cell in ("tanh", "relu") else {}
    net = kind(x.shape[1], units, bidirectional=directions == 2, **more).double()
    wide = GATES[cell] * units
    with torch.no_grad():
        for k, name in enumerate(("forth", "back")[:directions]):
            end = "_l0" + ("_reverse" if k else "")
            getattr(net, "weight_ih" + end).copy_(p[prefix + "input.weight"][k * wide:(k + 1) * wide])
            getattr(net, "weight_hh" + end).copy_(p[prefix + name + ".weight"])
            getattr(net, "bias_ih" + end).copy_(p[prefix + "input.bias"][k * wide:(k + 1) * wide])
            getattr(net, "bias_hh" + end).zero_()
            if cell == "gru":
                getattr(net, "bias_hh" + end)[2 * units:].copy_(p[prefix + name + ".bias"])
    parts = [x[b:e] for b, e in zip(offset, offset[1:]) if e > b]
    packed = torch.nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
    there = [i for i, (b, e) in enumerate(zip(offset, offset[1:])) if e > b]
    if start:
        start = tuple(t[there].reshape(len(there), directions, units).transpose(0, 1) for t in start[:2 if cell == "lstm" else 1])
    out, state = net(packed, start if cell == "lstm" or not start else start[0])
    out, lengths = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    last = state[1].transpose(0, 1).reshape(len(there), -1) if cell == "lstm" else None
    return torch.cat([out[i, :n] for i, n in enumerate(lengths)]), net, last


def torch_gradients(cell, net, prefix, directions):
    units, grads = net.hidden_size, {}
    ends = ["_l0", "_l0_reverse"][:directions]
    grads[prefix + "input.weight"] = torch.cat([getattr(net, "weight_ih" + e).grad for e in ends])
    grads[prefix + "input.bias"] = torch.cat([getattr(net, "bias_ih" + e).grad for e in ends])
    for name, e in zip(("forth", "back"), ends):
        grads[prefix + name + ".weight"] = getattr(net, "weight_hh" + e).grad
        if cell == "gru":
            grads[prefix + name + ".bias"] = getattr(net, "bias_hh" + e).grad[2 * units:]
    return grads


# ---- cases ----

def shapes_of(c):
    """Parameters of all layers by name, in the order of the registry."""
    gates, units, shapes = GATES[c["cell"]], c["units"], {}
    for i in range(c["layers"]):
        wide, prefix = c["in"] if i == 0 else c["directions"] * units, f"encoder.{i}."
        shapes[prefix + "input.weight"] = (c["directions"] * gates * units, wide)
        shapes[prefix + "input.bias"] = (c["directions"] * gates * units,)
        for name in ("forth", "back")[:c["directions"]]:
            apart = c["cell"] == "gru_before"
            shapes[f"{prefix}{name}.weight"] = ((2 if apart else gates) * units, units)
            if apart:
                shapes[f"{prefix}{name}.candidate"] = (units, units)
            if c["cell"] == "gru":
                shapes[f"{prefix}{name}.bias"] = (units,)
            if c["peepholes"]:
                shapes[f"{prefix}{name}.peepholes"] = (3 * units,)
    return shapes


def forward(c, p, x, start=None):
    for i in range(c["layers"]):
        x, last = layer_loop(c["cell"], x, p, f"encoder.{i}.", offsets(c["lengths"]), c["directions"], start)
    return x, last


def finish(m, prefix, c, p, x, start):
    """Both ways, and they must agree; what is kept is PyTorch's where it has the cell."""
    offset = offsets(c["lengths"])
    dout = m.normal(prefix + "in.dout", offset[-1], c["directions"] * c["units"])
    there = [i for i, n in enumerate(c["lengths"]) if n > 0]  # what has no rows has no part in it
    dlast = m.normal(prefix + "in.dlast", len(c["lengths"]), c["directions"] * c["units"]) if start and c["cell"] == "lstm" else None
    y, last = forward(c, p, x, start)
    ((y * dout).sum() + ((last * dlast)[there].sum() if dlast is not None else 0)).backward()
    grads = {name: value.grad for name, value in p.items()}
    dx = x.grad
    if c["cell"] != "gru_before" and not c["peepholes"]:
        z, nets, x2 = None, [], x.detach().clone().requires_grad_()
        start2 = tuple(t.detach().clone().requires_grad_() for t in start) if start else None
        for i in range(c["layers"]):
            z, net, last2 = layer_torch(c["cell"], x2 if i == 0 else z, {k: v.detach() for k, v in p.items()}, f"encoder.{i}.", offset,
                                        c["directions"], start2)
            nets.append(net)
        ((z * dout.detach()).sum() + ((last2 * dlast.detach()[there]).sum() if dlast is not None else 0)).backward()
        theirs = {}
        for i, net in enumerate(nets):
            theirs.update(torch_gradients(c["cell"], net, f"encoder.{i}.", c["directions"]))
        assert torch.allclose(y, z, atol=1e-12) and torch.allclose(dx, x2.grad, atol=1e-11)
        for name, value in theirs.items():
            assert torch.allclose(value, grads[name], atol=1e-10), name
        for ours, other in zip(start or (), start2 or ()):
            assert other.grad is None or torch.allclose(ours.grad, other.grad, atol=1e-11)
        y, dx, grads = z, x2.grad, theirs
    m.keep(prefix + "out", y)
    m.keep(prefix + "dx", dx)
    for name, t in zip(("dh0", "dc0"), start or ()):
        if name == "dh0" or c["cell"] == "lstm":
            m.keep(prefix + name, t.grad)
    for name in p:
        m.keep(prefix + "grad." + name, grads[name])


def add(m, values=None, x=None, state=None, **c):
    """A case of random numbers, or of `values` (by name), x and state. start: something stands before the first step."""
    c = dict(dict(layers=1, directions=1, peepholes=False, start=False, lengths=[5, 0, 9, 1, 3], gradients=True), **c)
    prefix, p = m.case(**c), {}
    for name, shape in shapes_of(c).items():
        scale = 0.5 if len(shape) == 1 else 1 / shape[1] ** 0.5
        p[name] = m.give(prefix + "in." + name, values[name].reshape(shape)) if values else m.normal(prefix + "in." + name, *shape, scale=scale)
    x = m.give(prefix + "in.x", x) if x is not None else m.normal(prefix + "in.x", sum(c["lengths"]), c["in"])
    start, shape = None, (len(c["lengths"]), c["directions"] * c["units"])
    if c["start"]:
        names = ("in.h0", "in.c0")[:2 if c["cell"] == "lstm" else 1]
        start = tuple(m.give(prefix + n, state[i]) if state else m.normal(prefix + n, *shape) for i, n in enumerate(names))
        start += (torch.zeros(shape, dtype=torch.float64, requires_grad=True),)[:2 - len(names)]
    if c["gradients"]:
        finish(m, prefix, c, p, x, start)
    else:
        m.keep(prefix + "out", forward(c, p, x, start)[0])
    return m.tensors[prefix + "out"], offsets(c["lengths"])


def make_recurrent():
    m = Maker("recurrent", 11)
    add(m, cell="lstm", units=8, **{"in": 6})
    add(m, cell="lstm", units=5, directions=2, layers=2, **{"in": 7})
    add(m, cell="lstm", units=18, directions=2, peepholes=True, **{"in": 5})
    add(m, cell="gru", units=5, directions=2, layers=2, **{"in": 7})
    add(m, cell="gru", units=17, **{"in": 4})
    add(m, cell="gru_before", units=6, directions=2, **{"in": 5})
    add(m, cell="tanh", units=6, directions=2, layers=2, **{"in": 3})
    add(m, cell="relu", units=19, **{"in": 4})
    add(m, cell="lstm", units=16, lengths=[40], **{"in": 4})
    for cell in GATES:
        add(m, cell=cell, units=6, directions=2, start=True, **{"in": 3})
    add(m, cell="lstm", units=18, peepholes=True, start=True, **{"in": 3})
    m.write()


# ---- ONNX ----

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def tensor(path):
    """A TensorProto of floats or 32-bit integers."""
    data, at, dims, values, kind = open(path, "rb").read(), 0, [], None, 1
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
            if key >> 3 == 1:
                dims.append(value)
            elif key >> 3 == 2:
                kind = value
            continue
        assert key & 7 == 2, path
        size, at = varint(data, at)
        part, at = data[at:at + size], at + size
        if key >> 3 == 1:
            i = 0
            while i < len(part):
                value, i = varint(part, i)
                dims.append(value)
        elif key >> 3 in (4, 9):
            values = numpy.frombuffer(part, {1: "<f4", 6: "<i4"}[kind])
    return values.reshape(dims).astype(numpy.float64)


def reorder(array, units, order):
    """Blocks of `units` rows, in this order."""
    return numpy.concatenate([array[k * units:(k + 1) * units] for k in order])


def make_recurrent_onnx():
    m = Maker("recurrent_onnx", 12)
    found = sorted(glob.glob(ONNX + "/test_lstm_*") + glob.glob(ONNX + "/test_gru_*") + glob.glob(ONNX + "/test_*rnn_*"))
    if not found:
        sys.exit(f"{ONNX}: nothing there; apt-get install libonnx-testdata")
    for folder in found:
        name, data = os.path.basename(folder), folder + "/test_data_set_0/"
        inputs = [tensor(f"{data}input_{i}.pb") for i in range(len(glob.glob(data + "input_*.pb")))]
        x, w, r = inputs[0], inputs[1][0], inputs[2][0]
        cell = "lstm" if "lstm" in name else "gru_before" if "gru" in name else "tanh"
        gates, units = GATES[cell], r.shape[1]
        bias = inputs[3][0].reshape(2, gates * units).sum(0) if len(inputs) > 3 else numpy.zeros(gates * units)
        if "batchwise" not in name:
            x = x.transpose(1, 0, 2)
        order = {"lstm": (0, 2, 3, 1), "gru_before": (1, 0, 2), "tanh": (0,)}[cell]  # theirs: i o f c; z r h
        w, r, bias = (reorder(a, units, order) for a in (w, r, bias))
        values = {"encoder.0.input.weight": w, "encoder.0.input.bias": bias, "encoder.0.forth.weight": r}
        if cell == "gru_before":
            values["encoder.0.forth.weight"], values["encoder.0.forth.candidate"] = r[:2 * units], r[2 * units:]
        peepholes = len(inputs) > 7
        if peepholes:
            values["encoder.0.forth.peepholes"] = reorder(inputs[7][0], units, (0, 2, 1))  # theirs: i o f
        lengths = [int(n) for n in inputs[4]] if len(inputs) > 4 else [x.shape[1]] * x.shape[0]
        state = [t[0] for t in inputs[5:7]] if len(inputs) > 5 else None
        rows = numpy.concatenate([part[:n] for part, n in zip(x, lengths)])
        out, offset = add(m, values, rows, state, cell=cell, units=units, peepholes=peepholes, gradients=False, start=state is not None,
                          lengths=lengths, **{"in": x.shape[2]})
        last = out[[end - 1 for end in offset[1:]]]
        theirs = tensor(sorted(glob.glob(data + "output_*.pb"))[-1]).reshape(last.shape)
        assert numpy.abs(last - theirs).max() < 1e-6, name
        m.cases[-1]["onnx"] = name
    m.write()


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or ("recurrent", "recurrent_onnx"):
        globals()["make_" + name]()


if __name__ == "__main__":
    main()
