"""A small model directory as timm writes it, with what timm predicts: tests/references/timm_local_dir/.

Run: tools/references/run.sh timm_local_dir, or `python timm_local_dir.py` in its environment.

  config.json, model.safetensors   written by timm's save_for_hf; weights by formula.py
  image.png                        RGB, 18 wide and 20 high, formula.image("local_dir/image")
  expected.json                    the line check_export.py prints for image.png (path without folder)
Then loads a copy with the shortest config.json timm accepts (what `tessera export` may write) and
stops if its logits differ. Note: floor(16 / 0.8889) = 17, so the shorter side becomes 17, not 18.
"""
import json
import tempfile
from pathlib import Path

import timm
from PIL import Image
from timm.models import save_for_hf

import formula
from check_export import predict
from tensors import TESTS

ARCHITECTURE = "vit_tiny_patch16_224"
ARGS = dict(img_size=16, patch_size=4, embed_dim=24, depth=2, num_heads=2,
            class_token=False, global_pool="avg", num_classes=10)
DATA = dict(mean=[0.5] * 3, std=[0.5] * 3, crop_pct=0.8889, interpolation="bilinear")
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def main():
    out = TESTS / "timm_local_dir"
    model = formula.fill(timm.create_model(ARCHITECTURE, **ARGS))
    save_for_hf(model, out, safe_serialization=True,
                model_config=dict(label_names=LABELS, pretrained_cfg=DATA))
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


if __name__ == "__main__":
    main()
