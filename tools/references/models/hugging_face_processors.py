"""Hugging Face's image processors, with Pillow: tests/references/hugging_face_processors.safetensors.

Run: tools/references/run.sh hugging_face_processors

Of each case of CASES the pixels [2, 3, height, width] of the pictures formula.image("hf/upright", 37, 23) and ("hf/lying", 22, 41).
Of convnext_large every 37th row and 41st column. `config` has the processors' own preprocessor_config.json by case.
"""
import json

import numpy as np
from PIL import Image
from transformers import ConvNextImageProcessorPil, DeiTImageProcessorPil, ViTImageProcessorPil

import formula
from tensors import save

PICTURES = {"hf/upright": (37, 23), "hf/lying": (22, 41)}
CASES = {
    "vit": ViTImageProcessorPil(size=dict(height=12, width=16)),
    "vit_edge_cropped": ViTImageProcessorPil(size=dict(shortest_edge=20), do_center_crop=True, crop_size=dict(height=17, width=12),
                                             image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.25, 0.3]),
    "vit_edge_square": ViTImageProcessorPil(size=dict(shortest_edge=15), do_center_crop=True, crop_size=15, resample=3),
    "deit": DeiTImageProcessorPil(size=dict(height=24, width=24), crop_size=dict(height=21, width=21)),
    "deit_not_cropped": DeiTImageProcessorPil(size=18, do_center_crop=False, do_normalize=False),
    "convnext": ConvNextImageProcessorPil(size=dict(shortest_edge=14), crop_pct=0.7),
    "convnext_large": ConvNextImageProcessorPil(size=dict(shortest_edge=384), resample=2),
}


def main():
    pictures = [Image.fromarray(formula.image(name, *sides)) for name, sides in PICTURES.items()]
    pixels = {name: processor(pictures, return_tensors="np").pixel_values for name, processor in CASES.items()}
    pixels["convnext_large"] = pixels["convnext_large"][:, :, ::37, ::41]
    save("hugging_face_processors.safetensors", {name: np.asarray(p) for name, p in pixels.items()},
         {name: json.loads(processor.to_json_string()) for name, processor in CASES.items()})


if __name__ == "__main__":
    main()
