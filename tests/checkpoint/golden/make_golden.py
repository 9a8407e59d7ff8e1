"""Writes reference.safetensors with the format's own library: every dtype, a scalar, an empty array, names that need escapes.

    pip install safetensors==0.8.0 && python make_golden.py

Byte i of an array is (7 i + 3) mod 256; safetensors_test.cc writes the same arrays and compares the files.
"""

import ctypes
import safetensors

ARRAYS = [  # name, dtype, shape, bytes
    ("b/bias", "float32", [3], 12),
    ("a.weight", "float32", [2, 3], 24),
    ("half", "bfloat16", [5], 10),
    ("f16", "float16", [2], 4),
    ("step", "int64", [], 8),
    ("key", "uint32", [4], 16),
    ("i32", "int32", [1], 4),
    ("image", "uint8", [1, 2, 2], 4),
    ("i8", "int8", [3], 3),
    ("mask", "bool", [2], 2),
    ("empty", "float32", [0, 4], 0),
    ("wide", "float64", [1], 8),
    ("u64", "uint64", [1], 8),
    ("i16", "int16", [1], 2),
    ("u16", "uint16", [1], 2),
    ('quote" \\ ä', "float32", [1], 4),
]

buffers = [ctypes.create_string_buffer(bytes((7 * i + 3) % 256 for i in range(n)), max(n, 1)) for _, _, _, n in ARRAYS]
specs = {
    name: safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffer), data_len=n)
    for (name, dtype, shape, n), buffer in zip(ARRAYS, buffers)
}
with open("reference.safetensors", "wb") as f:
    f.write(bytes(safetensors.serialize(specs, {"format": "tessera"})))
