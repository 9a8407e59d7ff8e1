"""Layers and their rates for layer decay: tests/references/layers.json.

Run: tools/references/run.sh layers, or `python layers.py` in its environment.

For each case of image_models.py, and "vit" (timm's test_vit), by parameter: [layer, factor of the learning rate] of timm's
param_groups_layer_decay with layer_decay 0.75, min_scale 0.1.
"""
import json

import timm
from timm.models import group_parameters
from timm.optim import param_groups_layer_decay

from image_models import CASES
from tensors import TESTS


def layers(model):
    of = group_parameters(model, model.group_matcher(coarse=False), reverse=True)
    scales = {}
    for group in param_groups_layer_decay(model, layer_decay=0.75, min_scale=0.1):
        scales |= {id(parameter): group["lr_scale"] for parameter in group["params"]}
    return {name: [of[name], scales[id(parameter)]] for name, parameter in model.named_parameters()}


def main():
    models = {case: build(args) for case, (_, build, args, _) in CASES.items()}
    models["vit"] = timm.create_model("test_vit")
    path = TESTS / "layers.json"
    with open(path, "w") as file:
        lines = [f"{json.dumps(case)}: {json.dumps(layers(model))}" for case, model in models.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
