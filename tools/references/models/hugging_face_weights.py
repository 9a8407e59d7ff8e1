"""Hugging Face's ViTForImageClassification: tests/references/weights/hugging_face.safetensors, as its save_pretrained writes it, and
tests/references/hugging_face_dir: the directory, with what the model says of an image.

Run: tools/references/run.sh hugging_face_weights

A ViT of width 16, 2 blocks, 2 heads, MLP 24, images 12 x 12, patches 4 x 4, 5 classes, exact GELU, layer norm epsilon 1e-6.
Parameters are formula.array(f"hf/{name}", shape, 0.3), norms' weights about 1. With them:
  logits [3, 5]   of images formula.array("hf/images", [3, 3, 12, 12])
The directory holds model.safetensors, config.json and preprocessor_config.json of the same model; expected.json: logits, and the
likeliest class, of timm_local_dir/image.png by its image processor with Pillow.
"""
import json
import tempfile
from pathlib import Path

import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

import formula
from tensors import TESTS


LABELS = ["ant", "bee", "cat", "dog", "eel"]


def write_directory(model):
    folder = TESTS / "hugging_face_dir"
    model.save_pretrained(folder)
    processor = ViTImageProcessorPil(size=dict(height=12, width=12))
    processor.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    image = Image.open(TESTS / "timm_local_dir" / "image.png").convert("RGB")
    with torch.no_grad():
        logits = model(processor(image, return_tensors="pt").pixel_values).logits[0]
    expected = dict(logits=logits.tolist(), **{"class": LABELS[int(logits.argmax())]})
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def main():
    config = ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=12,
                       patch_size=4, layer_norm_eps=1e-6, hidden_act="gelu", id2label=dict(enumerate(LABELS)))
    model = ViTForImageClassification(config).eval()
    state = {}
    for name, parameter in model.state_dict().items():
        norm = "layernorm" in name and name.endswith("weight")
        state[name] = torch.tensor(formula.array(f"hf/{name}", tuple(parameter.shape), 0.3, 1.0 if norm else 0.0))
    model.load_state_dict(state)
    with torch.no_grad():
        logits = model(torch.tensor(formula.array("hf/images", (3, 3, 12, 12)))).logits
    path = TESTS / "weights" / "hugging_face.safetensors"
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = load_file(Path(folder) / "model.safetensors")
    save_file({**saved, "logits": logits}, path, metadata={"format": "pt", "transformers": transformers.__version__})
    path.chmod(0o644)
    write_directory(model)
    print(path.name, len(saved))


if __name__ == "__main__":
    main()
