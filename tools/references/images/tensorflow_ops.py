"""big_vision's preprocessing in TensorFlow: tests/references/tensorflow_ops.safetensors.

Run: tools/references/run.sh tensorflow_ops (its own environment: requirements-tensorflow.txt), or in one that has TensorFlow.

Written by hand from what big_vision's ops (pp/ops_image.py, pp/archive/autoaugment.py at commit 0127fb6) compute, because big_vision is
not a package one can install, and the TensorFlow Addons it used for geometry are gone: they called ImageProjectiveTransformV3,
as below. Compared once with the original on the same pictures: every operation gave the same bytes.

Pictures: augment.py's, and formula.image("tensorflow/<case>", h, w) for the resizes. Keys, uint8 [H, W, 3]:
  op/<case>       one operation of the RandAugment     config ops {case: {picture, op, value, x, y}}
  resize/<case>   resize with the cast to uint8         config resizes {case: {in, out, method, antialias}}
config sides: what resize_small and resize_long make of a size.
"""
import math
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

import formula
from pictures import picture
from tensors import save

FILL = 128


def blend(degenerate, image, factor):
    if factor in (0.0, 1.0):
        return image if factor else degenerate
    low, high = tf.cast(degenerate, tf.float32), tf.cast(image, tf.float32)
    mixed = low + factor * (high - low)
    return tf.cast(tf.clip_by_value(mixed, 0.0, 255.0), tf.uint8)


def projected(image, transform):
    """Nearest pixels; what a channel of ones says lies outside becomes FILL."""
    with_ones = tf.concat([image, tf.ones_like(image[..., :1])], 2)[None]
    out = tf.raw_ops.ImageProjectiveTransformV3(
        images=with_ones, transforms=tf.convert_to_tensor([transform], tf.float32), output_shape=image.shape[:2],
        fill_value=0.0, interpolation="NEAREST", fill_mode="CONSTANT")[0]
    return tf.where(out[..., 3:] == 0, tf.constant(FILL, tf.uint8), out[..., :3])


def rotated(image, degrees):
    angle = tf.constant(degrees, tf.float32) * (math.pi / 180.0)
    h, w = (tf.cast(s - 1, tf.float32) for s in image.shape[:2])
    cos, sin = tf.cos(angle), tf.sin(angle)
    x = (w - (cos * w - sin * h)) / 2.0
    y = (h - (sin * w + cos * h)) / 2.0
    return projected(image, tf.stack([cos, -sin, x, sin, cos, y, 0.0, 0.0]))


def autocontrast(image):
    channels = []
    for c in range(3):
        channel = tf.cast(image[..., c], tf.float32)
        low, high = tf.reduce_min(channel), tf.reduce_max(channel)
        scale = 255.0 / (high - low)
        stretched = tf.clip_by_value(channel * scale + -low * scale, 0.0, 255.0)
        channels.append(tf.cast(stretched if high > low else channel, tf.uint8))
    return tf.stack(channels, 2)


def equalized(image):
    channels = []
    for c in range(3):
        channel = tf.cast(image[..., c], tf.int32)
        counts = tf.histogram_fixed_width(channel, [0, 255], nbins=256)
        used = tf.boolean_mask(counts, counts != 0)
        step = (tf.reduce_sum(used) - used[-1]) // 255
        if step != 0:
            table = (tf.cumsum(counts) + step // 2) // step
            channel = tf.gather(tf.clip_by_value(tf.concat([[0], table[:-1]], 0), 0, 255), channel)
        channels.append(tf.cast(channel, tf.uint8))
    return tf.stack(channels, 2)


def grey(image):
    return tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(image))


def contrast(image, factor):
    counts = tf.histogram_fixed_width(tf.cast(tf.image.rgb_to_grayscale(image), tf.int32), [0, 255], nbins=256)
    mean = tf.clip_by_value(tf.reduce_sum(tf.cast(counts, tf.float32)) / 256.0, 0.0, 255.0)
    return blend(tf.fill(image.shape, tf.cast(mean, tf.uint8)), image, factor)


def sharpness(image, factor):
    kernel = tf.tile(tf.constant([[1, 1, 1], [1, 5, 1], [1, 1, 1]], tf.float32, shape=[3, 3, 1, 1]) / 13.0, [1, 1, 3, 1])
    smooth = tf.nn.depthwise_conv2d(tf.cast(image, tf.float32)[None], kernel, [1, 1, 1, 1], padding="VALID")[0]
    smooth = tf.cast(tf.clip_by_value(smooth, 0.0, 255.0), tf.uint8).numpy()
    degenerate = image.numpy().copy()
    degenerate[1:-1, 1:-1] = smooth
    return blend(tf.constant(degenerate), image, factor)


def solarized(image, threshold):
    return tf.where(image < threshold, image, 255 - image)


def posterized(image, bits):
    shift = 8 - bits
    return tf.bitwise.left_shift(tf.bitwise.right_shift(image, shift), shift)


def solarize_added(image, add):
    added = tf.cast(tf.clip_by_value(tf.cast(image, tf.int64) + add, 0, 255), tf.uint8)
    return tf.where(image < 128, added, image)


def cut_out(image, reach, x, y):
    out = image.numpy().copy()
    out[max(0, y - reach):y + reach, max(0, x - reach):x + reach] = FILL
    return out


OPS = {
    "AutoContrast": lambda image, v: autocontrast(image),
    "Equalize": lambda image, v: equalized(image),
    "Invert": lambda image, v: 255 - image,
    "Rotate": rotated,
    "Posterize": lambda image, v: posterized(image, int(v)),
    "Solarize": lambda image, v: solarized(image, int(v)),
    "SolarizeAdd": lambda image, v: solarize_added(image, int(v)),
    "Color": lambda image, v: blend(grey(image), image, v),
    "Contrast": contrast,
    "Brightness": lambda image, v: blend(tf.zeros_like(image), image, v),
    "Sharpness": sharpness,
    "ShearX": lambda image, v: projected(image, [1, v, 0, 0, 1, 0, 0, 0]),
    "ShearY": lambda image, v: projected(image, [1, 0, 0, v, 1, 0, 0, 0]),
    "TranslateX": lambda image, v: projected(image, [1, 0, v, 0, 1, 0, 0, 0]),
    "TranslateY": lambda image, v: projected(image, [1, 0, 0, 0, 1, v, 0, 0]),
}
# What the magnitudes 0, 1, 5, 10 and 15 (and 20, 30 where bytes wrap round) amount to.
FACTORS = (0.1, 0.28, 1.0, 1.9, 2.8)
VALUES = {
    "AutoContrast": (0,), "Equalize": (0,), "Invert": (0,),
    "Rotate": (0.0, 3.0, -15.0, 30.0, -45.0), "Posterize": (0, 2, 4, 6, 8, 12), "Solarize": (0, 25, 128, 256, 384, 512),
    "SolarizeAdd": (0, 11, 55, 110, 165), "Color": FACTORS, "Contrast": FACTORS, "Brightness": FACTORS, "Sharpness": FACTORS,
    "ShearX": (0.0, 0.03, -0.15, 0.3, -0.45), "ShearY": (0.0, 0.03, -0.15, 0.3, -0.45),
    "TranslateX": (0.0, 2.5, -3.5, 10.0, -50.0), "TranslateY": (0.0, 2.5, -3.5, 10.0, -50.0),
}
RESIZES = {"down": ((48, 36), (16, 12)), "odd": ((65, 43), (33, 21)), "far": ((101, 75), (14, 13)), "up": ((9, 7), (23, 31)),
           "mixed": ((40, 11), (13, 29)), "same": ((15, 13), (15, 13)), "one": ((20, 19), (1, 1)), "near": ((31, 27), (30, 26))}


def cast(image):
    """big_vision's, after every resize."""
    return tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8)


def sides():
    """[in, size, result] as [width, height] of resize_small and of resize_long."""
    cases = []
    for w, h in ((500, 375), (375, 500), (333, 251), (97, 64), (64, 64), (1000, 31)):
        for size in (224, 256, 33):
            row = [[w, h], size]
            for side in (min(w, h), max(w, h)):
                factor = tf.cast(size, tf.float32) / tf.cast(side, tf.float32)
                row.append([int(tf.cast(tf.round(tf.cast(s, tf.float32) * factor), tf.int32)) for s in (w, h)])
            cases.append(row)
    return cases


def main():
    tensors, ops, resizes = {}, {}, {}
    for op, values in VALUES.items():
        for i, value in enumerate(values):
            for p in ("noise", "photo") if len(values) > 1 else ("noise", "photo", "flat", "dark"):
                case = f"op/{op}/{value}/{p}"
                tensors[case] = np.asarray(OPS[op](tf.constant(np.asarray(picture(p))), value))
                ops[case] = {"picture": p, "op": op, "value": value}
    for reach, x, y in ((4, 10, 10), (6, 1, 20), (40, 5, 5), (0, 3, 3)):
        case = f"op/Cutout/{reach}/noise"
        tensors[case] = cut_out(tf.constant(np.asarray(picture("noise"))), reach, x, y)
        ops[case] = {"picture": "noise", "op": "Cutout", "value": reach, "x": x, "y": y}
    for name, (size, out) in RESIZES.items():
        image = tf.constant(formula.image("tensorflow/" + name, size[1], size[0]))
        for method, antialias in (("nearest", False), ("area", False), ("bilinear", False), ("bilinear", True),
                                  ("bicubic", False), ("bicubic", True)):
            case = f"resize/{method}{'_antialias' if antialias else ''}/{name}"
            tensors[case] = cast(tf.image.resize(image, (out[1], out[0]), method=method, antialias=antialias)).numpy()
            resizes[case] = {"in": size, "out": out, "method": method, "antialias": antialias}
    save("tensorflow_ops.safetensors", tensors, {"ops": ops, "resizes": resizes, "sides": sides(), "fill": FILL,
                                                "tensorflow": tf.__version__})


if __name__ == "__main__":
    main()
