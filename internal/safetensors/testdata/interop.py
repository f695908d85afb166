# The other side of TestInterop, with the format's own library.
#
#   interop.py write FILE   writes the tensors below
#   interop.py read FILE    checks that FILE has just these tensors, byte for byte
import sys

import numpy
import safetensors
from safetensors.numpy import load_file

# name: dtype in the file, dtype in numpy, shape. Values: the bytes 0, 1, 2, ... (BOOL: 0, 1, 0, ...), from element 0 on.
# numpy has no bfloat16: those are raw.
TENSORS = {
    "wte.weight": ("F32", "float32", (7, 3)),
    "h.0.ln_1.weight": ("BF16", "uint16", (5,)),
    "name with \"quotes\" and ü": ("I32", "int32", (2, 1, 2)),
    "scalar": ("F64", "float64", ()),
    "empty": ("F32", "float32", (0, 3)),
    "half": ("F16", "float16", (3,)),
    "ids": ("I64", "int64", (2,)),
    "mask": ("BOOL", "bool", (3,)),
    "bytes": ("U8", "uint8", (9,)),
}
METADATA = {"format": "pt", "note": "<&> ü"}


def value(dtype, kind, shape):
    size = numpy.dtype(kind).itemsize * int(numpy.prod(shape))
    limit = 2 if dtype == "BOOL" else 251
    return bytes(i % limit for i in range(size))


def write(path):
    kept = {name: numpy.frombuffer(value(*spec), "uint8") for name, spec in TENSORS.items()}
    safetensors.serialize_file({
        name: safetensors.TensorSpec(dtype={"BF16": "bfloat16"}.get(dtype, kind), shape=list(shape),
                                     data_ptr=kept[name].ctypes.data, data_len=kept[name].nbytes)
        for name, (dtype, kind, shape) in TENSORS.items()
    }, path, METADATA)


def read(path):
    with open(path, "rb") as f:
        raw = dict(safetensors.deserialize(f.read()))
    assert sorted(raw) == sorted(TENSORS), sorted(raw)
    for name, (dtype, kind, shape) in TENSORS.items():
        t = raw[name]
        assert (t["dtype"], tuple(t["shape"])) == (dtype, shape), (name, t["dtype"], t["shape"])
        assert bytes(t["data"]) == value(dtype, kind, shape), name
    with safetensors.safe_open(path, framework="numpy") as f:
        assert f.metadata() == METADATA, f.metadata()
        for name, (dtype, kind, shape) in TENSORS.items():
            if dtype == "BF16":
                continue
            want = numpy.frombuffer(value(dtype, kind, shape), kind).reshape(shape)
            got = f.get_tensor(name)
            assert got.dtype == want.dtype and got.shape == shape and got.tobytes() == want.tobytes(), name


{"write": write, "read": read}[sys.argv[1]](sys.argv[2])
