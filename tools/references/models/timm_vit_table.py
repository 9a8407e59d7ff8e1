"""timm's registered ViTs that models/vit/vit.h can express: src/models/vit/timm_vits.def.

Run: tools/references/run.sh timm_vit_table, or `python timm_vit_table.py` in its environment.

One row a model: TIMM_VIT(name, default image size, arguments of VisionTransformer as JSON). Left out are models with arguments that
have no counterpart (other blocks, norms, MLPs or embeddings) and other classes than VisionTransformer and, with the word
"distilled", VisionTransformerDistilled. `norm_layer` is written as
its epsilon, "norm_eps", where it is a LayerNorm of another one than 1e-6. An image size that the patch does not divide (timm cuts
the remainder off) leaves a model out too.
"""
import inspect
import json
from functools import partial
from pathlib import Path

import timm
from timm.layers import LayerNorm
from timm.models import deit
from timm.models import vision_transformer as vt

OUT = Path(__file__).resolve().parents[3] / "src" / "models" / "vit" / "timm_vits.def"
KNOWN = {
    "patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "qkv_bias", "qk_norm", "proj_bias", "init_values", "class_token",
    "pos_embed", "no_embed_class", "reg_tokens", "pre_norm", "final_norm", "fc_norm", "global_pool", "pool_include_prefix",
    "act_layer", "norm_layer", "img_size", "distilled",
}
FREE = {"dynamic_img_size", "weight_init", "fix_init"}  # no difference to the function of a fixed image size
DEFAULTS = {k: p.default for k, p in inspect.signature(vt.VisionTransformer).parameters.items()}


def arguments(name):
    """What the entry point passes to VisionTransformer."""
    caught = {}

    def catch(variant, pretrained=False, **kwargs):
        caught.update(kwargs)

    module, maker = (vt, "_create_vision_transformer") if hasattr(vt, name) else (deit, "_create_deit")
    original = getattr(module, maker)
    setattr(module, maker, catch)
    try:
        getattr(module, name)()
    finally:
        setattr(module, maker, original)
    return caught


def row(name):
    args = {k: v for k, v in arguments(name).items() if k not in FREE}
    if "patch_size" not in args:
        args["patch_size"] = DEFAULTS["patch_size"]
    norm = args.pop("norm_layer", None)
    if isinstance(norm, partial) and norm.func is LayerNorm and set(norm.keywords) == {"eps"}:
        args["norm_eps"] = norm.keywords["eps"]
    elif norm is not None:
        return None
    if set(args) - KNOWN - {"norm_eps"} or args.get("act_layer", "gelu_tanh") != "gelu_tanh":
        return None
    if args.get("global_pool", "token") not in ("", "avg", "token", "map"):
        return None
    size = timm.get_pretrained_cfg(name).input_size[-1]
    size = args.pop("img_size", size)
    if not isinstance(args["patch_size"], int) or size % args["patch_size"]:
        return None
    args = {k: v for k, v in args.items() if k == "patch_size" or v != DEFAULTS.get(k)}
    return f'TIMM_VIT("{name}", {size}, R"({json.dumps(args, sort_keys=True)})")'


def main():
    names = [n for n in timm.list_models(module="vision_transformer") if hasattr(vt, n)]
    names += timm.list_models("deit*", module="deit")
    rows = [r for r in map(row, names) if r]
    head = "// timm's ViTs: name, image size, VisionTransformer's arguments. Made by tools/references/models/timm_vit_table.py, timm "
    OUT.write_text(head + timm.__version__ + ".\n" + "\n".join(rows) + "\n")
    print(f"{OUT.name}: {len(rows)} of {len(names)} models")


if __name__ == "__main__":
    main()
