"""The calls of cuDNN's attention that JAX makes, with the gradient: tests/references/cudnn_attention.json.

Of q [2, 5, 3, 16] and k, v [2, 7, 3, 16] in bf16, lowered for CUDA on a machine without a GPU: nothing is compiled or run. For each
call its name, types, layouts, and the configuration without the fields that have their default.
"""
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as fused

# What asks for a GPU.
fused.check_cudnn_version = lambda: 91000
fused.check_is_flash_attention = lambda *args, **more: None

ATTRIBUTES = ("operand_layouts", "result_layouts")
DEFAULTS = ("sliding_window_length", "max_seg_per_batch", "is_paged_attention", "seed")  # none without dropout, either
LAYOUT_DEFAULTS = ("dim_level_types", "dim_unique", "dim_ordered", "tiles", "element_size_in_bits", "memory_space",
                   "index_primitive_type", "pointer_primitive_type", "dynamic_shape_metadata_prefix_bytes")


def attention(q, k, v, cotangent):
    y, back = jax.vjp(lambda *x: fused.dot_product_attention(*x, scale=0.25, mask_type=fused.MaskType.NO_MASK), q, k, v)
    return y, *back(cotangent)


def call(line):
    text = re.search(r'backend_config = "((?:[^"\\]|\\.)*)"', line)[1]
    config = json.loads(re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), text))
    config.pop("wait_on_operation_queues", None)
    attention = config["cudnn_fmha_backend_config"]
    for name in DEFAULTS:
        attention.pop(name, None)
    for name in LAYOUT_DEFAULTS:
        attention["intermediate_tensor_shape"]["layout"].pop(name, None)
    layouts = {name: re.findall(r"dense<\[?([\d, ]*)\]?>", re.search(rf"{name} = \[(.*?>)\]", line)[1]) for name in ATTRIBUTES}
    operands, results = re.search(r" : \(([^()]*)\) -> \((.*)\)$", line).groups()
    return {"name": re.search(r"custom_call @(\S+)\(", line)[1], "operands": operands, "results": results, **layouts, "config": config}


def main():
    q, k = (jax.ShapeDtypeStruct((2, tokens, 3, 16), jnp.bfloat16) for tokens in (5, 7))
    lines = jax.jit(attention).trace(q, k, k, q).lower(lowering_platforms=("cuda",)).as_text().splitlines()
    calls = [call(line.strip()) for line in lines if "__cudnn$fmha" in line]
    path = Path(__file__).resolve().parents[3] / "tests/references/cudnn_attention.json"
    path.write_text(json.dumps(calls, indent=1) + "\n")


main()
