"""Writes step_000000008/, the second worked example of docs/formats/checkpoint.md, from what that page says alone.

    python make_sliced.py

sliced_test.cc writes the same checkpoint and compares the files.
"""

import json
import pathlib
import struct

STEP = 8
SHAPES = {"params/w": [2, 2]}
FILES = [{"params/w@0,0": [1.0, -2.0]}, {"params/w@1,0": [0.5, 4.0]}]  # rows


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def state_file(arrays):
    header = {"__metadata__": {"format": "tessera", "shapes": compact(SHAPES), "step": str(STEP)}}
    data = b""
    for name, row in arrays.items():
        values = struct.pack(f"<{len(row)}f", *row)
        header[name] = {"dtype": "F32", "shape": [1, len(row)], "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = compact(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


folder = pathlib.Path(__file__).parent / f"step_{STEP:09}"
folder.mkdir(exist_ok=True)
files = {f"state-{i + 1:05}-of-{len(FILES):05}.safetensors": state_file(arrays) for i, arrays in enumerate(FILES)}
files["state.json"] = (json.dumps({"format_version": 2, "step": STEP, "state": {"seed": 0}}, indent=2) + "\n").encode()
rows = [f'    {{"name": "{name}", "size": {len(data)}, "crc32c": "{crc32c(data):08x}"}}' for name, data in files.items()]
commit = f'{{\n  "format": "tessera checkpoint",\n  "version": 2,\n  "step": {STEP},\n  "files": [\n' + ",\n".join(rows) + "\n  ],\n"
files["COMMIT"] = (commit + f'  "crc32c": "{crc32c(commit.encode()):08x}"\n}}\n').encode()
for name, data in files.items():
    (folder / name).write_bytes(data)
