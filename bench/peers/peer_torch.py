"""PyTorch on the cases of `qkv bench`. Attention is scaled_dot_product_attention where there is one, else the plain formula. What it
has no form of its own for is written as its users write it: a window as a mask, all scores computed; sequences of many lengths padded to
the longest."""
import math
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

from peer import serve

torch.set_num_threads(int(sys.argv[1]))
FUSED = hasattr(F, "scaled_dot_product_attention")


def attend(q, k, v, causal=False, dropout=0.0, mask=None):
    if FUSED:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    if causal:
        n = q.shape[-2]
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, -1)
    return (F.dropout(weights, dropout) if dropout > 0 else weights) @ v


class Attention(nn.Module):
    def __init__(self, d, heads, dropout=0.0, bias=False):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        o = attend(q, k, v, dropout=self.dropout if self.training else 0.0, mask=mask)
        return self.out(o.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, d, heads, ffn, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = Attention(d, heads, dropout, bias=True)
        self.up, self.down, self.drop = nn.Linear(d, ffn), nn.Linear(ffn, d), nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = x + self.drop(self.attention(self.norm1(x), mask))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Classifier(nn.Module):
    def __init__(self, vocab, classes, n, d, heads, layers, ffn, dropout):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, d), nn.Embedding(n, d)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(d, heads, ffn, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, ids, lengths=None):
        x = self.drop(self.tokens(ids) + self.places(torch.arange(ids.shape[1])))
        there = mask = None
        if lengths is not None:
            there = torch.arange(ids.shape[1])[None, :] < lengths[:, None]
            mask = there[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        x = self.norm(x)
        if there is None:
            return self.head(x.mean(1))
        return self.head((x * there[:, :, None]).sum(1) / lengths[:, None])


def adamw(parameters, lr):
    """In one pass over everything where this PyTorch can (from 2.4 on)."""
    options = {"lr": lr, "betas": (0.9, 0.98), "weight_decay": 0.01}
    parameters = list(parameters)
    try:
        return torch.optim.AdamW(parameters, fused=True, **options)
    except (RuntimeError, TypeError):
        return torch.optim.AdamW(parameters, **options)


def no_grad(pass_):
    def run():
        with torch.no_grad():
            pass_()

    return run


def gemm_nt(s):
    a, w = torch.randn(s["m"], s["k"]), torch.randn(s["n"], s["k"])
    return no_grad(lambda: F.linear(a, w))


def gemm_nn(s):
    a, w = torch.randn(s["m"], s["k"]), torch.randn(s["k"], s["n"])
    return no_grad(lambda: torch.mm(a, w))


def gemm_tn(s):
    a, b, c = torch.randn(s["k"], s["m"]), torch.randn(s["k"], s["n"]), torch.zeros(s["m"], s["n"])
    return lambda: torch.addmm(c, a.t(), b, out=c)


def lengths_of(s):
    """About the lengths that qkv draws: as many tokens in all, each length as likely."""
    draw, left, drawn = random.Random(1), s["tokens"], []
    while left > 0:
        drawn.append(min(left, draw.randint(s["shortest"], s["n"])))
        left -= drawn[-1]
    return drawn


def attention_of(s, grad):
    """q, k, v [batch, heads, n, d], parts of one tensor as behind a fused projection, and what `attend` is told beside."""
    n, batch, mask = s["n"], s.get("batch", 1), None
    variant = s.get("variant", "")
    if variant == "ragged":
        lengths = torch.tensor(lengths_of(s))
        n, batch = int(lengths.max()), len(lengths)
        mask = (torch.arange(n)[None, :] < lengths[:, None])[:, None, None, :]
    if variant == "window":
        at = torch.arange(n)
        mask = (at[:, None] - at[None, :]).abs() <= s["window"]
    x = torch.randn(batch, n, 3, s["heads"], s["d"], requires_grad=grad)
    return x.permute(2, 0, 3, 1, 4), {"causal": variant == "causal", "dropout": 0.1 if variant == "dropout" else 0.0, "mask": mask}


def attention_forward(s):
    (q, k, v), how = attention_of(s, False)
    return no_grad(lambda: attend(q, k, v, **how))


def attention_backward(s):
    (q, k, v), how = attention_of(s, True)
    o = attend(q, k, v, **how)
    d_o = torch.randn_like(o)
    return lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)


def attention_decode(s):
    """One query a sequence; keys and values as a cache has them, each head's by itself."""
    batch, heads, n, d = s.get("batch", 1), s["heads"], s["n"], s["d"]
    q, k, v = torch.randn(batch, heads, 1, d), torch.randn(batch, heads, n, d), torch.randn(batch, heads, n, d)
    return no_grad(lambda: attend(q, k, v))


def norm(s):
    x, gain, bias = torch.randn(s["n"], s["d"]), torch.ones(s["d"]), torch.zeros(s["d"])
    return no_grad(lambda: F.layer_norm(x, (s["d"],), gain, bias))


def gelu(s):
    x = torch.randn(s["n"], s["d"])
    return no_grad(lambda: F.gelu(x))


def update(s):
    weight = nn.Parameter(torch.randn(s["n"], s["d"]))
    weight.grad = torch.randn(s["n"], s["d"])
    return adamw([weight], 1e-4).step


def module(s, net, rows_of, backward):
    """One pass of a module over a batch of sequences of one length, or one pass there and back."""
    x = torch.randn(s["batch"], s["n"], s["d"], requires_grad=backward)
    d_out = torch.randn(s["batch"], s["n"], s["d"])

    def forward():
        with torch.no_grad():
            net(x)

    def both():
        net.zero_grad(set_to_none=True)
        x.grad = None
        rows_of(net(x)).backward(d_out)

    return both if backward else forward


def recurrence(s, kind, backward):
    """nn.LSTM, nn.GRU, nn.RNN."""
    return module(s, kind(s["d"], s["d"], batch_first=True), lambda out: out[0], backward)


def layer(s, backward):
    return module(s, Attention(s["d"], s["heads"]), lambda out: out, backward)


def train_step(s):
    net = Classifier(16000, 8, s["n"], s["d"], s["heads"], s["layers"], s["ffn"], 0.1)
    optimizer = adamw(net.parameters(), 1e-5)
    lengths = None
    batch = s.get("batch", 0)
    if s.get("variant") == "ragged":  # padded to the longest: PyTorch has no other way that trains
        lengths = torch.tensor(lengths_of(s))
        batch = len(lengths)
    n = s["n"] if lengths is None else int(lengths.max())
    ids, target = torch.randint(0, 16000, (batch, n)), torch.randint(0, 8, (batch,))

    def run():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(ids, lengths), target, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    return run


def encoder(s):
    net = Classifier(30522, 8, s["n"], s["d"], s["heads"], s["layers"], s["ffn"], 0.0).eval()
    ids = torch.randint(0, 30522, (s["batch"], s["n"]))

    def run():
        with torch.inference_mode():
            net(ids)

    return run


if __name__ == "__main__":
    serve({
        "gemm.nt": gemm_nt,
        "gemm.nn": gemm_nn,
        "gemm.tn": gemm_tn,
        "attention.forward": attention_forward,
        "attention.backward": attention_backward,
        "attention.decode": attention_decode,
        "pointwise.norm": norm,
        "pointwise.gelu": gelu,
        "pointwise.adamw": update,
        "layer.forward": lambda s: layer(s, False),
        "layer.both": lambda s: layer(s, True),
        "recurrence.lstm": lambda s: recurrence(s, nn.LSTM, False),
        "recurrence.lstm-both": lambda s: recurrence(s, nn.LSTM, True),
        "recurrence.gru": lambda s: recurrence(s, nn.GRU, False),
        "recurrence.gru-both": lambda s: recurrence(s, nn.GRU, True),
        "recurrence.rnn": lambda s: recurrence(s, nn.RNN, False),
        "recurrence.rnn-both": lambda s: recurrence(s, nn.RNN, True),
        "train.step": train_step,
        "predict.encoder": encoder,
    })
