"""ONNX Runtime on the forward cases of `qkv bench`, written with its own fused operators (what its optimizer makes of an exported model).

All optimizations are on. Weights are constants, so that it packs them beforehand. Inputs and outputs are bound once, so that none is
copied. Its threads are pinned as those of the others are: the calling one here, the rest by intra_op_thread_affinities. Its memory gets
large pages from outside (peer.py), as it does not ask for them."""
import sys

import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from peer import pin, serve

THREADS = int(sys.argv[1])
RANDOM = numpy.random.default_rng(1)
MS = "com.microsoft"


class Model:
    """A graph that is written down operator by operator; random inputs, the last node's output."""

    def __init__(self):
        self.weights, self.nodes, self.inputs, self.feeds = [], [], [], {}

    def weight(self, *shape, value=None):
        data = RANDOM.standard_normal(shape, dtype=numpy.float32) * 0.02 if value is None else numpy.full(shape, value, numpy.float32)
        return self.constant(data)

    def constant(self, data):
        name = "w%d" % len(self.weights)
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def input(self, *shape, below=None):
        name = "in%d" % len(self.inputs)
        kind = TensorProto.FLOAT if below is None else TensorProto.INT64
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        self.feeds[name] = RANDOM.standard_normal(shape, dtype=numpy.float32) if below is None else RANDOM.integers(0, below, shape)
        return name

    def node(self, kind, inputs, domain="", **attributes):
        output = "x%d" % len(self.nodes)
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def linear(self, x, k, n):
        return self.node("MatMul", [x, self.weight(k, n)])

    def ready(self, output):
        """A pass: one run of it."""
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "case", self.inputs, [out], self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
        session = onnxruntime.InferenceSession(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(), options(),
                                               providers=["CPUExecutionProvider"])
        bound = session.io_binding()
        for name, data in self.feeds.items():
            bound.bind_cpu_input(name, data)
        bound.bind_output(output, "cpu")
        return lambda: session.run_with_iobinding(bound)


def options():
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = THREADS
    o.inter_op_num_threads = 1
    o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    if THREADS > 1:  # of all but the calling one; processors are counted from 1
        o.add_session_config_entry("session.intra_op_thread_affinities", ";".join(str(i + 2) for i in range(THREADS - 1)))
    return o


def attention_layer(m, x, d, heads):
    return m.node("Attention", [x, m.weight(d, 3 * d), m.weight(3 * d)], MS, num_heads=heads)


def encoder(s):
    m, d, ffn = Model(), s["d"], s["ffn"]
    x = m.node("Gather", [m.weight(30522, d), m.input(s["batch"], s["n"], below=30522)])
    x = m.node("Add", [x, m.weight(s["n"], d)])
    x = m.node("LayerNormalization", [x, m.weight(d, value=1), m.weight(d, value=0)], epsilon=1e-5, axis=-1)

    def join(branch, x):
        return m.node("SkipLayerNormalization", [branch, x, m.weight(d, value=1), m.weight(d, value=0), m.weight(d)], MS, epsilon=1e-5)

    for _ in range(s["layers"]):
        x = join(m.linear(attention_layer(m, x, d, s["heads"]), d, d), x)
        x = join(m.linear(m.node("BiasGelu", [m.linear(x, d, ffn), m.weight(ffn)], MS), ffn, d), x)
    return m.ready(m.node("ReduceMean", [x], axes=[1], keepdims=0))


def layer(s):
    m = Model()
    x = attention_layer(m, m.input(s["batch"], s["n"], s["d"]), s["d"], s["heads"])
    return m.ready(m.linear(x, s["d"], s["d"]))


def attention(s, queries):
    if s.get("variant", "causal") not in ("causal", "one_head"):
        raise ValueError("no such thing in it")
    m, wide, batch = Model(), s["heads"] * s["d"], s.get("batch", 1)
    q, k, v = (m.input(batch, n, wide) for n in (queries, s["n"], s["n"]))
    return m.ready(m.node("MultiHeadAttention", [q, k, v], MS, num_heads=s["heads"], unidirectional=int(s.get("variant") == "causal")))


def gemm(s, kind):
    m = Model()
    a = m.input(s["m"], s["k"])
    return m.ready(m.node("Gemm", [a, m.weight(s["n"], s["k"])], transB=1) if kind == "nt" else m.linear(a, s["k"], s["n"]))


def recurrence(s, kind, gates):
    m, d = Model(), s["d"]
    x = m.input(s["n"], s["batch"], d)
    return m.ready(m.node(kind, [x, m.weight(1, gates * d, d), m.weight(1, gates * d, d), m.weight(1, 2 * gates * d)], hidden_size=d))


def norm(s):
    m = Model()
    x = m.input(s["n"], s["d"])
    return m.ready(m.node("LayerNormalization", [x, m.weight(s["d"], value=1), m.weight(s["d"], value=0)], epsilon=1e-5, axis=-1))


def gelu(s):
    m = Model()
    return m.ready(m.node("Gelu", [m.input(s["n"], s["d"])], MS))


pin(0)
serve({
    "gemm.nt": lambda s: gemm(s, "nt"),
    "gemm.nn": lambda s: gemm(s, "nn"),
    "attention.forward": lambda s: attention(s, s["n"]),
    "attention.decode": lambda s: attention(s, 1),
    "pointwise.norm": norm,
    "pointwise.gelu": gelu,
    "layer.forward": layer,
    "recurrence.lstm": lambda s: recurrence(s, "LSTM", 4),
    "recurrence.gru": lambda s: recurrence(s, "GRU", 3),
    "recurrence.rnn": lambda s: recurrence(s, "RNN", 1),
    "predict.encoder": encoder,
})
