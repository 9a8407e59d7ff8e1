"""The logits of an export of `--format stablehlo` for images, computed by JAX: run_stablehlo.py DIRECTORY PIXELS.

PIXELS is a file of bytes, as many as the program's images have. The program is read by JAX's own reader of MLIR, made a portable
StableHLO artifact, and called as jax.export calls what it reads: no program of ours takes part.
"""
import json
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.export
import numpy as np
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

DTYPES = {"f32": np.float32, "bf16": jax.numpy.bfloat16, "u8": np.uint8, "i32": np.int32, "u32": np.uint32}


def read_safetensors(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    header.pop("__metadata__", None)
    return {name: np.frombuffer(body[slice(*entry["data_offsets"])], {"F32": np.float32, "I32": np.int32}[entry["dtype"]])
            .reshape(entry["shape"]) for name, entry in header.items()}


def portable(text):
    with make_ir_context():
        module = ir.Module.parse(text)
        version = stablehlo.get_minimum_version()
        return stablehlo.serialize_portable_artifact(module, version, True), str(version)


def exported(signature, artifact):
    """What jax.export.deserialize() would give for this program."""
    def avals(of):
        return tuple(jax.core.ShapedArray(tuple(one["shape"]), DTYPES[one["dtype"]]) for one in signature[of])

    arguments, results = avals("arguments"), avals("results")
    return jax.export.Exported(
        fun_name="predict", in_tree=jax.tree.structure((arguments, {})), in_avals=arguments,
        out_tree=jax.tree.structure(results), out_avals=results, in_shardings_hlo=(None,) * len(arguments),
        out_shardings_hlo=(None,) * len(results), _has_named_shardings=False, _in_named_shardings=(None,) * len(arguments),
        _out_named_shardings=(None,) * len(results), nr_devices=1, platforms=("cpu",), ordered_effects=(),
        unordered_effects=(), disabled_safety_checks=(), mlir_module_serialized=artifact,
        calling_convention_version=jax.export.maximum_supported_calling_convention_version,
        module_kept_var_idx=tuple(range(len(arguments))), uses_global_constants=False, _get_vjp=None)


def main():
    folder, pixels = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    signature = json.loads((folder / "signature.json").read_text())
    weights = read_safetensors(folder / signature["weights"])
    images = signature["arguments"][-1]
    values = [weights[one["name"]] for one in signature["arguments"][:-1]]
    values.append(np.frombuffer(pixels.read_bytes(), np.uint8).reshape(images["shape"]))
    artifact, version = portable((folder / signature["program"]).read_text())
    logits = jax.jit(exported(signature, artifact).call)(*values)[0]
    print(json.dumps({"logits": np.asarray(logits).tolist(), "version": version}))


main()
