"""What timm's models that src/models has by name are trained and evaluated with: src/recipe/translate/timm_inputs.def.

Run: tools/references/run.sh timm_inputs, or `python timm_inputs.py` in its environment.

One row a model: TIMM_INPUT(name, tag, image size, crop_pct, interpolation, mean, std), of its default weights, whose tag is
empty where timm has none on the Hugging Face Hub; further rows "name.tag" for other weights where these differ.
resolve_data_config() fills in what a config leaves out.
"""
from pathlib import Path

import timm
from timm.data import resolve_data_config
from timm.models import get_pretrained_cfg

from timm_variants import names

OUT = Path(__file__).resolve().parents[3] / "src" / "recipe" / "translate" / "timm_inputs.def"


def numbers(values):
    return '"[' + ", ".join(f"{v:.10g}" for v in values) + ']"'


def row(name):
    cfg = get_pretrained_cfg(name)
    config = resolve_data_config({}, pretrained_cfg=cfg.to_dict() if cfg else {"input_size": None})
    channels, height, width = config["input_size"]
    assert channels == 3 and height == width, name
    tag = cfg.tag if cfg and cfg.hf_hub_id and "." not in name else ""
    return (f'"{tag}", {height}, {config["crop_pct"]:.10g}, "{config["interpolation"]}", '
            f'{numbers(config["mean"])}, {numbers(config["std"])}')


def main():
    lines = []
    tagged = timm.list_models(pretrained=True)
    for name in names():
        default = row(name)
        lines.append(f'TIMM_INPUT("{name}", {default})\n')
        for full in sorted(t for t in tagged if t.split(".")[0] == name):
            if row(full).split(", ", 1)[1] != default.split(", ", 1)[1]:
                lines.append(f'TIMM_INPUT("{full}", {row(full)})\n')
    head = f"// Made by tools/references/commands/timm_inputs.py with timm {timm.__version__}.\n"
    OUT.write_text(head + "".join(lines))


if __name__ == "__main__":
    main()
