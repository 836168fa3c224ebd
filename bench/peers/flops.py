#!/usr/bin/env python3
"""What other counters of operations report for the same layers, beside qkv's.

    python3 -m venv V; V/bin/pip install torch fvcore thop ptflops
    V/bin/python bench/peers/flops.py build/release/qkv

Prints a table in 1e9 multiply-adds, forward pass of one sequence, d 512, 8 heads, and the versions. Counters that call a multiply-add
one FLOP (fvcore, thop, ptflops) are taken as they are; torch's FlopCounterMode, which calls it two, is halved. `-`: it failed or is
not installed. Nothing is timed.
"""
import contextlib
import importlib.metadata
import io
import json
import logging
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, N = 512, 8, 1024


class Attention(nn.Module):
    """Multi-head self-attention as it is written by hand; fused: by scaled_dot_product_attention."""

    def __init__(self, heads=HEADS, output=True, fused=False, causal=False):
        super().__init__()
        self.heads, self.fused, self.causal = heads, fused, causal
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.out = nn.Linear(D, D, bias=False) if output else None

    def forward(self, x):
        batch, n, _ = x.shape
        q, k, v = (t.view(batch, n, self.heads, D // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) / (D // self.heads) ** 0.5
            if self.causal:
                scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
            mixed = scores.softmax(-1) @ v
        mixed = mixed.transpose(1, 2).reshape(batch, n, D)
        return self.out(mixed) if self.out else mixed


class Whole(nn.Module):
    """nn.MultiheadAttention as self-attention of one input."""

    def __init__(self, **options):
        super().__init__()
        self.inner = nn.MultiheadAttention(D, HEADS, bias=False, batch_first=True)
        self.options = options

    def forward(self, x):
        return self.inner(x, x, x, **self.options)[0]


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.inner = kind(D, D, batch_first=True)

    def forward(self, x):
        return self.inner(x)[0]


def encoder_layer():
    return nn.TransformerEncoderLayer(D, HEADS, 4 * D, dropout=0, batch_first=True, norm_first=True)


# name, how the module is made, whether it trains (evaluation has a fused path of its own), sequence length, arguments of qkv flops
LAYERS = [
    ("attention, 1 head, no output projection", lambda: Attention(1, output=False), True, N, "--heads 1 --no-output-projection"),
    ("attention, 8 heads", lambda: Attention(), True, N, ""),
    ("the same by scaled_dot_product_attention", lambda: Attention(fused=True), True, N, ""),
    ("causal, by hand", lambda: Attention(causal=True), True, N, "--causal"),
    ("causal, by scaled_dot_product_attention", lambda: Attention(fused=True, causal=True), True, N, "--causal"),
    ("nn.MultiheadAttention, training", lambda: Whole(need_weights=False), True, N, ""),
    ("nn.MultiheadAttention, with weights", lambda: Whole(need_weights=True), True, N, ""),
    ("nn.MultiheadAttention, evaluation", lambda: Whole(need_weights=False), False, N, ""),
    ("nn.LSTM", lambda: Recurrent(nn.LSTM), True, 512, "--model lstm"),
    ("nn.GRU", lambda: Recurrent(nn.GRU), True, 512, "--model gru"),
    ("nn.TransformerEncoderLayer, training", encoder_layer, True, N, "encoder"),
    ("nn.TransformerEncoderLayer, evaluation", encoder_layer, False, N, "encoder"),
]


def by_torch(module, x):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as counter, torch.no_grad() if not module.training else contextlib.nullcontext():
        module(x)
    return counter.get_total_flops() / 2


def by_fvcore(module, x):
    from fvcore.nn import FlopCountAnalysis
    return FlopCountAnalysis(module, x).unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


def by_thop(module, x):
    from thop import profile
    return profile(module, inputs=(x,), verbose=False)[0]


def by_ptflops(module, x, backend):
    from ptflops import get_model_complexity_info
    macs, _ = get_model_complexity_info(module, tuple(x.shape[1:]), as_strings=False, print_per_layer_stat=False, verbose=False, backend=backend,
                                        output_precision=9)
    return macs


COUNTERS = [("torch", by_torch), ("fvcore", by_fvcore), ("thop", by_thop), ("ptflops", lambda m, x: by_ptflops(m, x, "pytorch")),
            ("ptflops aten", lambda m, x: by_ptflops(m, x, "aten"))]


def by_qkv(program, n, arguments):
    encoder = arguments == "encoder"
    words = "--layers 1 --position none" if encoder else arguments
    out = subprocess.run([program, "flops", "--json", "--no-time", "--dim", str(D), "--seq", str(n)] + words.split(), check=True,
                         capture_output=True, text=True).stdout
    macs = json.loads(out)["macs"]
    return macs["layers"]["encoder.0"] if encoder else macs["total"]


def one(counter, make, training, n):
    module = make().train(training)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return counter(module, torch.randn(1, n, D))
    except Exception:  # whatever a counter does with a layer it cannot take
        return None


def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "-"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.manual_seed(1)
    names = [name for name, _ in COUNTERS]
    print("  ".join(f"{v} {version(v)}" for v in ["torch", "fvcore", "thop", "ptflops"]))
    print(f"{'layer (G multiply-adds)':42}{'qkv':>9}" + "".join(f"{name:>14}" for name in names))
    for name, make, training, n, arguments in LAYERS:
        ours = by_qkv(sys.argv[1], n, arguments)
        row = f"{name:42}{ours / 1e9:9.3f}"
        for _, counter in COUNTERS:
            theirs = one(counter, make, training, n)
            row += f"{'-':>14}" if theirs is None else f"{theirs / 1e9:9.3f}{100 * theirs / ours:4.0f}%"
        print(row, flush=True)


if __name__ == "__main__":
    main()
