"""Small model directories as timm writes them, with what timm predicts: tests/references/timm_local_dir/ and timm_directories.json.

Run: tools/references/run.sh timm_local_dir, or `python timm_local_dir.py` in its environment.

timm_local_dir, a whole directory:
  config.json, model.safetensors   written by timm's save_for_hf; weights by formula.py
  image.png                        RGB, 18 wide and 20 high, formula.image("local_dir/image")
  expected.json                    the line check_export.py prints for image.png (path without folder)
Then loads a copy with the shortest config.json timm accepts (what `tessera export` may write) and
stops if its logits differ. Note: floor(16 / 0.8889) = 17, so the shorter side becomes 17, not 18.

timm_directories.json: for each of CASES, at least one of each family,
  config      config.json as save_for_hf wrote it
  tensors     [[name, dtype, shape]] of model.safetensors as it wrote it; that the values are formula.py's is checked here
  logits      of image.png by the model in float64, prepared as config.json says
"""
import json
import tempfile
from pathlib import Path

import numpy as np
import timm
from PIL import Image
from safetensors import safe_open
from timm.models import save_for_hf

import formula
from check_export import predict
from image_models import fill
from tensors import TESTS

ARCHITECTURE = "vit_tiny_patch16_224"
ARGS = dict(img_size=16, patch_size=4, embed_dim=24, depth=2, num_heads=2,
            class_token=False, global_pool="avg", num_classes=10)
DATA = dict(mean=[0.5] * 3, std=[0.5] * 3, crop_pct=0.8889, interpolation="bilinear")
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

VIT = dict(img_size=16, patch_size=4, embed_dim=24, depth=2, num_heads=2)
CONVNEXT = dict(dims=[8, 12, 16, 24], depths=[1, 2, 3, 1])
RESNET = dict(layers=[1, 2, 2, 1], channels=[8, 8, 12, 16])
CLASSES = ["blue", "green", "red"]
# case: (a name of timm's, what create_model is given, side of the images). Of mixers and ResMLPs timm has no others than the
# registered ones: they are given the image size alone.
CASES = {
    "vit": ("vit_base_patch16_224", VIT, 16),
    "vit_distilled": ("deit_base_distilled_patch16_224", VIT, 16),
    "vit_registers": ("vit_base_patch16_reg4_gap_256", VIT | dict(reg_tokens=2), 16),
    "vit_clip": ("vit_base_patch16_clip_224", VIT, 16),
    "deit3": ("deit3_small_patch16_224", VIT, 16),
    "mixer": ("mixer_s32_224", dict(img_size=64), 64),
    "resmlp": ("resmlp_12_224", dict(img_size=32), 32),
    "convnext": ("convnext_tiny", CONVNEXT, 64),
    "convnext_v2": ("convnextv2_tiny", CONVNEXT, 64),
    "bit": ("resnetv2_50x1_bit", dict(channels=[32, 32, 64, 64], stem_chs=32, bottle_ratio=1.0), 64),
    "resnet": ("resnet50", RESNET, 64),
    "resnet_basic": ("resnet18", RESNET, 64),
    "resnet_d": ("resnet50d", RESNET, 72),
    "resnet_group": ("resnet50_gn", RESNET | dict(channels=[32, 32, 64, 64]), 64),
}


def save(architecture, args, labels, data, folder):
    """Writes `folder` as timm does."""
    model = fill(timm.create_model(architecture, **args))
    save_for_hf(model, folder, safe_serialization=True, model_config=dict(label_names=labels, pretrained_cfg=data))


def whole_directory():
    out = TESTS / "timm_local_dir"
    save(ARCHITECTURE, ARGS, LABELS, DATA, out)
    (out / "model.safetensors").chmod(0o644)  # safetensors writes 0600
    image = out / "image.png"
    Image.fromarray(formula.image("local_dir/image", 20, 18)).save(image)
    expected = next(predict(out, [image]))
    (out / "expected.json").write_text(json.dumps(expected | dict(path=image.name)) + "\n")

    short = dict(architecture=ARCHITECTURE, num_classes=10, model_args=ARGS,
                 pretrained_cfg=DATA | dict(input_size=[3, 16, 16], num_classes=10))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(short))
        (Path(folder) / "model.safetensors").write_bytes((out / "model.safetensors").read_bytes())
        assert next(predict(folder, [image]))["logits"] == expected["logits"]
    for path in sorted(out.iterdir()):
        print(f"timm_local_dir/{path.name}: {path.stat().st_size} bytes")
    return image


def tensors_of(path):
    """[[name, dtype, shape]]; stops where a value is not formula.py's."""
    with safe_open(path, "np") as file:
        entries = []
        for name in file.keys():
            value = file.get_tensor(name)
            counter = name.endswith("num_batches_tracked")
            want = np.zeros((), np.int64) if counter else formula.parameter(name, value.shape)
            assert value.dtype == want.dtype and np.array_equal(value, want), name
            entries.append([name, "I64" if counter else "F32", list(value.shape)])
    return entries


def directory(case, image):
    architecture, args, side = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        save(architecture, args | dict(num_classes=len(CLASSES)), CLASSES, DATA | dict(input_size=[3, side, side]), folder)
        config = json.loads((Path(folder) / "config.json").read_text())
        logits = next(predict(folder, [image]))["logits"]
        tensors = tensors_of(Path(folder) / "model.safetensors")
    print(f"  {case}: {len(tensors)} tensors, logits {[round(v, 4) for v in logits]}")
    return dict(config=config, tensors=tensors, logits=logits)


def main():
    image = whole_directory()
    cases = {case: directory(case, image) for case in CASES}
    lines = [f"{json.dumps(case)}: {json.dumps(entry)}" for case, entry in cases.items()]
    path = TESTS / "timm_directories.json"
    path.write_text("{" + ",\n".join(lines) + "}\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
