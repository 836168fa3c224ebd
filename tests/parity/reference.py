"""The formulas of qkv once more, written plainly for PyTorch's automatic differentiation."""
import math

import torch
import torch.nn.functional as F

GATED = {"geglu": "gelu", "swiglu": "silu"}


def visible(nq, nk, left, right):
    """[nq, nk] true where query i sees key j; the last query stands at the last key."""
    at = torch.arange(nq).unsqueeze(1) + nk - nq
    key = torch.arange(nk).unsqueeze(0)
    seen = torch.ones(nq, nk, dtype=torch.bool)
    if left >= 0:
        seen &= key >= at - left
    if right >= 0:
        seen &= key <= at + right
    return seen, (at - key).abs()


def attend(q, k, v, left, right, scale, softcap=0.0, slope=0.0):
    """One head of one sequence: output and log-sum-exp. A row that sees nothing gives 0 and -inf."""
    seen, distance = visible(len(q), len(k), left, right)
    score = scale * (q @ k.T)
    if softcap:
        score = softcap * torch.tanh(score / softcap)
    score = score - slope * distance
    any_seen = seen.any(1)
    filled = torch.where(seen, score, torch.full_like(score, -1e300))
    weights = torch.where(seen, torch.softmax(filled, 1), torch.zeros_like(score))
    lse = torch.where(any_seen, torch.logsumexp(filled, 1), torch.full_like(filled[:, 0], -math.inf))
    return weights @ v, lse


def attention(q, k, v, q_offset, k_offset, heads, kv_heads, left, right, scale, softcap=0.0, alibi=()):
    """Ragged: out [rows of q, heads * value_dim], lse [heads, rows of q]."""
    dim, value_dim, group = q.shape[1] // heads, v.shape[1] // kv_heads, heads // kv_heads
    outs, lses = [], []
    for s in range(len(q_offset) - 1):
        rows, keys = slice(q_offset[s], q_offset[s + 1]), slice(k_offset[s], k_offset[s + 1])
        if q_offset[s] == q_offset[s + 1]:
            continue
        out, lse = [], []
        for h in range(heads):
            g = h // group
            o, l = attend(q[rows, h * dim:(h + 1) * dim], k[keys, g * dim:(g + 1) * dim], v[keys, g * value_dim:(g + 1) * value_dim],
                          left, right, scale, softcap, alibi[h] if len(alibi) else 0.0)
            out.append(o)
            lse.append(l)
        outs.append(torch.cat(out, 1))
        lses.append(torch.stack(lse))
    return torch.cat(outs, 0), torch.cat(lses, 1)


def rms_norm(x, gain, bias, epsilon):
    y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon) * gain
    return y if bias is None else y + bias


def activation(act, x):
    if act in GATED:
        gate, up = x.chunk(2, -1)
        return activation(GATED[act], gate) * up
    if act == "gelu":
        return F.gelu(x)
    if act == "gelu_tanh":
        return F.gelu(x, approximate="tanh")
    return {"relu": F.relu, "silu": F.silu}[act](x)


# ---- the network; p maps qkv's parameter names to tensors, c is a case of make_parity.py ----

def norm(x, p, name, c):
    gain, bias = p[name + ".weight"], p.get(name + ".bias")
    if c["norm"] == "rms":
        return rms_norm(x, gain, bias, c["norm_epsilon"])
    return F.layer_norm(x, (x.shape[1],), gain, bias, c["norm_epsilon"])


def linear(x, p, name):
    return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))


def norm_heads(x, gain, c):
    """RMS norm of each head of each row."""
    return rms_norm(x.reshape(len(x), -1, c["head_dim"]), gain, None, c["norm_epsilon"]).reshape(x.shape)


def self_attention(x, p, prefix, offset, c):
    queries, keys = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    q, k, v = linear(x, p, prefix + "attention.qkv").split([queries, keys, keys], 1)
    if c["qk_norm"]:
        q = norm_heads(q, p[prefix + "attention.q_norm.weight"], c)
        k = norm_heads(k, p[prefix + "attention.k_norm.weight"], c)
    scale = 1.0 if c["unscaled"] else 1 / math.sqrt(c["head_dim"])
    mixed, _ = attention(q, k, v, offset, offset, c["heads"], c["kv_heads"], c["left"], c["right"], scale, c["softcap"])
    return linear(mixed, p, prefix + "attention.out")


def feed_forward(x, p, prefix, c):
    return linear(activation(c["activation"], linear(x, p, prefix + "ffn.in")), p, prefix + "ffn.out")


def block(x, p, prefix, offset, c):
    past = {"plain": 1.0, "none": 0.0, "deepnorm": (2.0 * c["depth"]) ** 0.25}[c["residual"]]
    branches = (("norm1", lambda y: self_attention(y, p, prefix, offset, c)), ("norm2", lambda y: feed_forward(y, p, prefix, c)))
    for name, branch in branches:
        if c["norm_place"] == "post":
            x = norm(past * x + branch(x), p, prefix + name, c)
        elif c["norm_place"] == "pre":
            x = past * x + branch(norm(x, p, prefix + name, c))
        else:
            x = past * x + norm(branch(norm(x, p, prefix + name, c)), p, prefix + name + ".after", c)
    return x


def sinusoidal(rows, width):
    """Column 2i is sin(p w), column 2i+1 cos(p w), with w = 10000^(-2i/width)."""
    position = torch.arange(rows, dtype=torch.float64).unsqueeze(1)
    column = torch.arange(width)
    angle = position * 10000.0 ** (-(column // 2 * 2).double() / width)
    return torch.where(column % 2 == 0, torch.sin(angle), torch.cos(angle))


def embed(ids, p, offset, c):
    positions = torch.cat([torch.arange(b - a) for a, b in zip(offset, offset[1:])])
    x = p["embedding.weight"][ids]
    if c["position"] == "sinusoidal":
        x = x * math.sqrt(c["dim"]) + sinusoidal(c["max_length"], c["dim"])[positions]
    if c["position"] == "learned":
        x = x + p["position.weight"][positions]
    return x


def pool(x, p, offset, c):
    """One row a sequence; 0 for an empty one."""
    width, rows = c["dim"] // c["heads"], []
    for a, b in zip(offset, offset[1:]):
        s = x[a:b]
        if a == b:
            rows.append(torch.zeros(c["dim"], dtype=x.dtype))
        elif c["pooling"] == "attention":
            heads = [slice(h * width, (h + 1) * width) for h in range(c["heads"])]
            rows.append(torch.cat([torch.softmax(s[:, h] @ p["pool.query"][h] / math.sqrt(width), 0) @ s[:, h] for h in heads]))
        else:
            rows.append({"mean": s.mean(0), "max": s.max(0)[0], "first": s[0]}[c["pooling"]])
    return torch.stack(rows)


def classifier(ids, p, offset, c):
    """Logits [sequences, classes]."""
    x = embed(ids, p, offset, c)
    for layer in range(c["layers"]):
        x = block(x, p, f"encoder.{layer}.", offset, c)
    if c["norm_place"] != "post":
        x = norm(x, p, "norm", c)
    return linear(pool(x, p, offset, c), p, "head")


def block_shapes(prefix, c):
    """Names and shapes of a block's parameters."""
    queries, width = c["heads"] * c["head_dim"], (c["heads"] + 2 * c["kv_heads"]) * c["head_dim"]
    inner = 2 * c["ffn"] if c["activation"] in GATED else c["ffn"]
    shapes = {"attention.qkv.weight": (width, c["dim"]), "attention.out.weight": (c["dim"], queries),
              "ffn.in.weight": (inner, c["dim"]), "ffn.out.weight": (c["dim"], c["ffn"]),
              "norm1.weight": (c["dim"],), "norm2.weight": (c["dim"],)}
    if c["bias"]:
        shapes.update({"attention.qkv.bias": (width,), "attention.out.bias": (c["dim"],), "ffn.in.bias": (inner,),
                       "ffn.out.bias": (c["dim"],)})
        if c["norm"] == "layer":
            shapes.update({"norm1.bias": (c["dim"],), "norm2.bias": (c["dim"],)})
    if c["norm_place"] == "sandwich":
        shapes.update({name.replace(".", ".after.", 1): shape for name, shape in shapes.items() if name.startswith("norm")})
    if c["qk_norm"]:
        shapes.update({"attention.q_norm.weight": (c["head_dim"],), "attention.k_norm.weight": (c["head_dim"],)})
    return {prefix + name: shape for name, shape in shapes.items()}


def classifier_shapes(c):
    shapes = {"embedding.weight": (c["vocab"], c["dim"])}
    if c["position"] == "learned":
        shapes["position.weight"] = (c["max_length"], c["dim"])
    for layer in range(c["layers"]):
        shapes.update(block_shapes(f"encoder.{layer}.", c))
    if c["norm_place"] != "post":
        shapes["norm.weight"] = (c["dim"],)
        if c["bias"] and c["norm"] == "layer":
            shapes["norm.bias"] = (c["dim"],)
    if c["pooling"] == "attention":
        shapes["pool.query"] = (c["dim"],)
    shapes.update({"head.weight": (c["classes"], c["dim"]), "head.bias": (c["classes"],)})
    return shapes
