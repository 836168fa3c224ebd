"""The network of a qkv model's size in PyTorch over the lines of a file: predict_torch.py THREADS LIBQKV MODEL FILE

Prints 0 (no start is counted) and the nanoseconds from token ids to labels: sorting by length, padding, masking, the network. The ids
are made beforehand by qkv's tokenizer. Weights are random, the linear model beside the encoder is left out."""
import ctypes
import json
import sys
import time

import torch

from peer import large_pages
from peer_torch import Classifier

BATCH_TOKENS = 4096  # padded ones


class Token(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("begin", ctypes.c_int64), ("end", ctypes.c_int64)]


def read(library, path, texts):
    """The model's description and the ids of each text."""
    qkv = ctypes.CDLL(library)
    for name in ("qkv_model_load", "qkv_model_tokens", "qkv_model_describe"):
        getattr(qkv, name).restype = ctypes.c_int
    context, model, described = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_char_p()
    if qkv.qkv_ctx_create(None, ctypes.byref(context), None, ctypes.c_size_t(0)):
        sys.exit("no context")
    if qkv.qkv_model_load(context, path.encode(), ctypes.byref(model)) or qkv.qkv_model_describe(model, ctypes.byref(described)):
        sys.exit("%s cannot be read" % path)
    ids, tokens, count = [], ctypes.POINTER(Token)(), ctypes.c_int64()
    for text in texts:
        if qkv.qkv_model_tokens(model, text, ctypes.c_int64(len(text)), ctypes.byref(tokens), ctypes.byref(count), None):
            sys.exit("a text cannot be cut into tokens")
        ids.append([tokens[i].id for i in range(count.value)])
        qkv.qkv_release(context, ctypes.cast(tokens, ctypes.c_void_p))
    return json.loads(described.value), ids


def batches(ids):
    """Numbers of texts, the short ones first, as many as BATCH_TOKENS hold with their padding."""
    batch = []
    for i in sorted(range(len(ids)), key=lambda i: len(ids[i])):
        if batch and (len(batch) + 1) * len(ids[i]) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def label(net, ids):
    labels = [0] * len(ids)
    for batch in batches(ids):
        longest = max(1, len(ids[batch[-1]]))
        padded = torch.tensor([ids[i] + [0] * (longest - len(ids[i])) for i in batch])
        lengths = torch.tensor([max(1, len(ids[i])) for i in batch])
        for i, best in zip(batch, net(padded, lengths).argmax(1).tolist()):
            labels[i] = best
    return labels


def main():
    with open(sys.argv[4], "rb") as file:
        texts = [line.rstrip(b"\n") for line in file]
    told, ids = read(sys.argv[2], sys.argv[3], texts)
    c = told["config"]
    net = Classifier(c["vocab"], c["classes"], c["max_length"], c["dim"], c["heads"], c["layers"], c["ffn"], 0.0).eval()
    with torch.inference_mode():
        label(net, ids[:2000])
        large_pages()
        begun = time.perf_counter()
        label(net, ids)
        print(0, int(1e9 * (time.perf_counter() - begun)))


main()
