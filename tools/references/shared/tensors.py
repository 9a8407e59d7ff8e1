"""Writes a reference file: safetensors whose `__metadata__` holds one entry, "config", in JSON."""
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

TESTS = Path(__file__).resolve().parents[3] / "tests" / "references"


def save(file_name, tensors, config):
    """Float arrays are stored as float32 (a scalar as shape [1]), uint8 as it is."""
    out = {}
    for key, value in tensors.items():
        value = np.atleast_1d(value)
        out[key] = np.ascontiguousarray(value if value.dtype == np.uint8 else value.astype(np.float32))
    path = TESTS / file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(out, path, metadata={"config": json.dumps(config)})
    path.chmod(0o644)  # safetensors writes 0600
    print(f"{path.name}: {len(out)} tensors, {path.stat().st_size} bytes")
