#!/usr/bin/python3
"""Makes tests/parity/data/positions.safetensors: attention with each relative position encoding, and rows with each absolute one, by
PyTorch in double precision, with gradients. The formulas are written from the papers (docs/positions.md), one per function.

    /usr/bin/python3 tests/parity/make_positions.py
"""
import math
import sys

import numpy
import torch

sys.dont_write_bytecode = True
import make_parity
import reference

NO_DETAILS = dict(reach=0, buckets=0, base=10000.0, pairs="half", part=1.0, stretch="none", factor=1.0, length=0, left=-1, right=-1,
                  softcap=0.0)


def t5_bucket(relative, causal, buckets, reach):
    """Raffel et al. 2020, section 2.1, as T5 computes it; relative: key - query."""
    first = torch.zeros_like(relative)
    if causal:
        away = torch.clamp(-relative, min=0)
    else:
        buckets //= 2
        first = (relative > 0).long() * buckets
        away = relative.abs()
    exact = buckets // 2
    large = exact + (torch.log(torch.clamp(away, min=1).float() / exact) / math.log(reach / exact) * (buckets - exact)).long()
    return first + torch.where(away < exact, away, torch.clamp(large, max=buckets - 1))


def alibi_slopes(heads):
    """Press et al. 2022, section 3, and what its authors do for other numbers of heads than powers of two."""
    def power(n):
        start = 2.0 ** (-8.0 / n)
        return [start ** (i + 1) for i in range(n)]
    if math.log2(heads).is_integer():
        return power(heads)
    closest = 2 ** math.floor(math.log2(heads))
    return power(closest) + power(2 * closest)[0::2][:heads - closest]


def rope_angles(c, dim, rows):
    """Angles [rows, dim/2], and the factor of the scores."""
    i = torch.arange(0, dim, 2, dtype=torch.float64)
    base, s = c["base"], c["factor"]
    if c["stretch"] == "ntk":
        base = base * s ** (dim / (dim - 2))
    theta = base ** (-i / dim)
    sharpen = 1.0
    if c["stretch"] == "linear":
        theta = theta / s
    if c["stretch"] == "yarn":
        turns = c["length"] * theta / (2 * math.pi)
        ramp = torch.clamp((turns - 1) / (32 - 1), 0, 1)
        theta = (1 - ramp) * theta / s + ramp * theta
        sharpen = (0.1 * math.log(s) + 1) ** 2
    return torch.arange(rows, dtype=torch.float64).unsqueeze(1) * theta, sharpen


def rotate(x, angle, pairs):
    """Su et al. 2021, section 3.2.2, of the first columns of x."""
    dim = 2 * angle.shape[1]
    turned, rest = x[:, :dim], x[:, dim:]
    if pairs == "half":
        a, b = turned[:, :dim // 2], turned[:, dim // 2:]
    else:
        a, b = turned[:, 0::2], turned[:, 1::2]
    u, v = a * torch.cos(angle) - b * torch.sin(angle), b * torch.cos(angle) + a * torch.sin(angle)
    together = torch.cat([u, v], 1) if pairs == "half" else torch.stack([u, v], 2).reshape(len(x), dim)
    return torch.cat([together, rest], 1)


def head(c, h, q, k, v, table, keys, values):
    """One head of one sequence."""
    n = len(q)
    relative = torch.arange(n).unsqueeze(0) - torch.arange(n).unsqueeze(1)
    seen, _ = reference.visible(n, n, c["left"], c["right"])
    scale = 1 / math.sqrt(c["dim"])
    if c["kind"] == "rope":
        angle, sharpen = rope_angles(c, 2 * int(c["part"] * c["dim"] / 2), n)
        q, k, scale = rotate(q, angle, c["pairs"]), rotate(k, angle, c["pairs"]), scale * sharpen
    index = torch.clamp(relative, -c["reach"], c["reach"]) + c["reach"]
    score = q @ k.T
    if c["kind"] == "shaw":
        score = score + (q.unsqueeze(1) * keys[index]).sum(2)
    score = scale * score
    if c["softcap"]:
        score = c["softcap"] * torch.tanh(score / c["softcap"])
    if c["kind"] == "alibi":
        score = score - alibi_slopes(c["heads"])[h] * relative.abs()
    if c["kind"] == "t5":
        score = score + table[t5_bucket(relative, c["right"] == 0, c["buckets"], c["reach"]), h]
    weights = torch.softmax(torch.where(seen, score, torch.full_like(score, -1e300)), 1)
    out = weights @ v
    if c["kind"] == "shaw":
        out = out + (weights.unsqueeze(2) * values[index]).sum(1)
    return out


def make_relative(m, **change):
    c = dict(NO_DETAILS, heads=2, kv_heads=2, dim=8, lengths=[19, 0, 5])
    c.update(change)
    p = m.case(**c)
    offset, n = make_parity.offsets(c["lengths"]), sum(c["lengths"])
    dim, group = c["dim"], c["heads"] // c["kv_heads"]
    q = m.normal(p + "in.q", n, c["heads"] * dim)
    k = m.normal(p + "in.k", n, c["kv_heads"] * dim)
    v = m.normal(p + "in.v", n, c["kv_heads"] * dim)
    dout = m.normal(p + "in.dout", n, c["heads"] * dim)
    params = {}
    if c["kind"] == "t5":
        params["table"] = m.normal(p + "in.table", c["buckets"], c["heads"])
    if c["kind"] == "shaw":
        params["keys"] = m.normal(p + "in.keys", 2 * c["reach"] + 1, dim)
        params["values"] = m.normal(p + "in.values", 2 * c["reach"] + 1, dim)
    rows = []
    for a, b in zip(offset, offset[1:]):
        if a == b:
            continue
        heads = []
        for h in range(c["heads"]):
            own, of = slice(h * dim, (h + 1) * dim), slice(h // group * dim, (h // group + 1) * dim)
            heads.append(head(c, h, q[a:b, own], k[a:b, of], v[a:b, of], params.get("table"), params.get("keys"), params.get("values")))
        rows.append(torch.cat(heads, 1))
    out = torch.cat(rows)
    out.backward(dout)
    m.keep(p + "out", out)
    for name, x in dict(q=q, k=k, v=v, **params).items():
        m.keep(p + "d" + name, x.grad)


def sinusoids(rows, width, split):
    table = reference.sinusoidal(rows, width)
    return torch.cat([table[:, 0::2], table[:, 1::2]], 1) if split else table


def make_absolute(m, **change):
    c = dict(width=10, layout="interleaved", beyond="error", length=12, lengths=[7, 12, 0, 1])
    c.update(change)
    p = m.case(**c)
    rows = m.normal(p + "in.rows", sum(c["lengths"]), c["width"])
    dout = m.normal(p + "in.dout", sum(c["lengths"]), c["width"])
    table = m.normal(p + "in.table", c["length"], c["width"]) if c["kind"] == "learned" else None
    parts = []
    for n in c["lengths"]:
        at, last = torch.arange(n), c["length"] - 1
        if c["kind"] == "sinusoidal":
            parts.append(sinusoids(n, c["width"], c["layout"] == "split"))
        elif n <= c["length"] or c["beyond"] == "clamp":
            parts.append(table[torch.clamp(at, max=last)])
        elif c["beyond"] == "tile":
            parts.append(table[at % c["length"]])
        else:
            place = at.double() * last / (n - 1)
            low = torch.clamp(place.floor().long(), max=last)
            share = (place - low).unsqueeze(1)
            parts.append((1 - share) * table[low] + share * table[torch.clamp(low + 1, max=last)])
    out = rows + torch.cat(parts)
    out.backward(dout)
    m.keep(p + "out", out)
    if table is not None:
        m.keep(p + "dtable", table.grad)


def main():
    torch.set_num_threads(1)
    m = make_parity.Maker("positions", 21)
    for right in (-1, 0):
        make_relative(m, kind="t5", buckets=32, reach=128, right=right, lengths=[150])
        make_relative(m, kind="t5", buckets=8, reach=20, right=right, heads=4)
        make_relative(m, kind="alibi", right=right)
        make_relative(m, kind="shaw", reach=16, right=right, lengths=[40, 3])
    for heads in (3, 6, 12):
        make_relative(m, kind="alibi", heads=heads, kv_heads=heads, dim=4, lengths=[9])
    make_relative(m, kind="shaw", reach=2, heads=4, left=5, right=3, softcap=3.0)
    make_relative(m, kind="shaw", reach=3, heads=2, kv_heads=1, dim=5)
    for pairs in ("half", "interleaved"):
        make_relative(m, kind="rope", pairs=pairs)
        make_relative(m, kind="rope", pairs=pairs, part=0.5, base=500.0, right=0)
    for stretch in ("linear", "ntk", "yarn"):
        make_relative(m, kind="rope", stretch=stretch, factor=4.0, length=64, dim=16)
    make_absolute(m, kind="sinusoidal")
    make_absolute(m, kind="sinusoidal", layout="split")
    make_absolute(m, kind="sinusoidal", layout="split", width=7)
    make_absolute(m, kind="learned")
    for beyond in ("clamp", "tile", "interpolate"):
        make_absolute(m, kind="learned", beyond=beyond, length=5)
    make_absolute(m, kind="learned", beyond="interpolate", length=1)
    m.write()


if __name__ == "__main__":
    main()
