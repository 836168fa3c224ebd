"""ONNX Runtime on the encoder, written with its own fused operators (what its optimizer makes of an exported BERT)."""
import sys

import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from peer import serve

RANDOM = numpy.random.default_rng(1)


def model(layers, d, heads, ffn, vocab, n):
    weights, nodes = [], []

    def weight(name, *shape, value=None):
        data = RANDOM.standard_normal(shape, dtype=numpy.float32) * 0.02 if value is None else numpy.full(shape, value, numpy.float32)
        weights.append(numpy_helper.from_array(data, name))
        return name

    def node(kind, inputs, output, domain="com.microsoft", **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    x = node("Gather", [weight("tokens", vocab, d), "ids"], "gathered", "")
    x = node("Add", [x, weight("places", n, d)], "embedded", "")
    x = node("LayerNormalization", [x, weight("g", d, value=1), weight("b", d, value=0)], "x", "", epsilon=1e-5, axis=-1)
    for i in range(layers):
        p = "l%d." % i
        a = node("Attention", [x, weight(p + "wqkv", d, 3 * d), weight(p + "bqkv", 3 * d)], p + "a", num_heads=heads)
        a = node("MatMul", [a, weight(p + "wo", d, d)], p + "o", "")
        x = node("SkipLayerNormalization", [a, x, weight(p + "g1", d, value=1), weight(p + "b1", d, value=0), weight(p + "bo", d)], p + "x1",
                 epsilon=1e-5)
        f = node("MatMul", [x, weight(p + "w1", d, ffn)], p + "f", "")
        f = node("BiasGelu", [f, weight(p + "bf", ffn)], p + "gelu")
        f = node("MatMul", [f, weight(p + "w2", ffn, d)], p + "down", "")
        x = node("SkipLayerNormalization", [f, x, weight(p + "g2", d, value=1), weight(p + "b2", d, value=0), weight(p + "b3", d)], p + "x2",
                 epsilon=1e-5)
    node("ReduceMean", [x], "pooled", "", axes=[1], keepdims=0)
    graph = helper.make_graph(nodes, "encoder", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", n])],
                              [helper.make_tensor_value_info("pooled", TensorProto.FLOAT, ["batch", d])], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def encoder(s):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(sys.argv[1])
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(model(s["layers"], s["d"], s["heads"], s["ffn"], 30522, s["n"]), options,
                                           providers=["CPUExecutionProvider"])
    ids = RANDOM.integers(0, 30522, (s["batch"], s["n"]))
    return lambda: session.run(None, {"ids": ids})


serve({"predict.encoder": encoder})
