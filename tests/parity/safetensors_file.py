"""Reading and writing safetensors with nothing but the standard library and NumPy."""
import hashlib
import json
import struct

import numpy

TYPES = {"F32": numpy.float32, "F64": numpy.float64, "I32": numpy.int32, "I64": numpy.int64, "U8": numpy.uint8}
NAMES = {numpy.dtype(kind): name for name, kind in TYPES.items()}


def write(path, tensors, metadata):
    """tensors: name -> array, in the order of the data; metadata: text -> text."""
    header, data = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        raw = numpy.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    """tensors, metadata; refuses gaps, overlaps and trailing bytes."""
    with open(path, "rb") as f:
        block = f.read()
    size = struct.unpack("<Q", block[:8])[0]
    header = json.loads(block[8:8 + size].decode())
    metadata = header.pop("__metadata__", {})
    data, tensors, at = block[8 + size:], {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin != at:
            raise ValueError(f"{path}: {name} begins at {begin}, not at {at}")
        tensors[name] = numpy.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        at = end
    if at != len(data):
        raise ValueError(f"{path}: {len(data) - at} bytes too many")
    return tensors, metadata


def hash_inputs(tensors):
    """SHA-256 over name, 0 byte and data of every tensor whose name holds ".in.", in the order of the data."""
    h = hashlib.sha256()
    for name, array in tensors.items():
        if ".in." in name:
            h.update(name.encode() + b"\0" + numpy.ascontiguousarray(array).tobytes())
    return h.hexdigest()
