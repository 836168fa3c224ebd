"""PyTorch on the cases of `qkv bench`. Attention is scaled_dot_product_attention where there is one, else the plain formula."""
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


def gemm_nt(s):
    a, w = torch.randn(s["m"], s["k"]), torch.randn(s["n"], s["k"])

    def run():
        with torch.no_grad():
            F.linear(a, w)

    return run


def gemm_tn(s):
    a, b, c = torch.randn(s["k"], s["m"]), torch.randn(s["k"], s["n"]), torch.zeros(s["m"], s["n"])
    return lambda: torch.addmm(c, a.t(), b, out=c)


def heads_of(s, grad):
    x = torch.randn(1, s["n"], 3, s["heads"], s["d"], requires_grad=grad)
    return (x, *x.permute(2, 0, 3, 1, 4))


def attention_forward(s):
    _, q, k, v = heads_of(s, False)

    def run():
        with torch.no_grad():
            attend(q, k, v, causal=s.get("variant") == "causal")

    return run


def attention_backward(s):
    x, q, k, v = heads_of(s, True)
    o = attend(q, k, v, causal=s.get("variant") == "causal")
    d_o = torch.randn_like(o)
    return lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)


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
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, weight_decay=0.01)
    lengths = None
    batch = s.get("batch", 0)
    if s.get("variant") == "ragged":  # padded to the longest: PyTorch has no other way that trains
        draw, left, drawn = random.Random(1), s["tokens"], []
        while left > 0:
            drawn.append(min(left, draw.randint(s["shortest"], s["n"])))
            left -= drawn[-1]
        lengths, batch = torch.tensor(drawn), len(drawn)
    ids, target = torch.randint(0, 16000, (batch, s["n"])), torch.randint(0, 8, (batch,))

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
        "gemm.tn": gemm_tn,
        "attention.forward": attention_forward,
        "attention.backward": attention_backward,
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
