"""What the programs of an export of `--format stablehlo` give, computed by JAX: run_stablehlo.py DIRECTORY INPUT...

An INPUT is a file of bytes, those of the array that a program takes beside the weights; the results of the programs before are its
further inputs, by name. The inputs are given in the order in which the programs ask for them. Every program is read by JAX's own reader
of MLIR, made a portable StableHLO artifact, and called as jax.export calls what it reads: no program of ours takes part.
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
    folder, files = pathlib.Path(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]]
    signature = json.loads((folder / "signature.json").read_text())
    weights = read_safetensors(folder / signature["weights"])
    answers = {}
    for program in signature["programs"]:
        values = []
        for one in program["arguments"]:
            name, before = one["name"], {"images": "image_embeddings", "texts": "text_embeddings", "encoded": "encoder"}
            if name in weights:
                values.append(weights[name])
            elif one["dtype"] == "f32" and before[name] in answers:
                values.append(answers[before[name]])
            else:
                values.append(np.frombuffer(files.pop(0).read_bytes(), DTYPES[one["dtype"]]).reshape(one["shape"]))
        artifact, version = portable((folder / program["file"]).read_text())
        answers[program["file"].removesuffix(".mlir")] = jax.jit(exported(program, artifact).call)(*values)[0]
    print(json.dumps({name: np.asarray(answer).tolist() for name, answer in answers.items()} | {"version": version}))


main()
