"""How often TensorFlow draws which random crop: tests/references/tensorflow_crop_draws.safetensors.

Run: tools/references/run.sh tensorflow_crop_draws. As crop_draws.py, of tf.image.sample_distorted_bounding_box as big_vision's
inception_crop calls it (area 5 to 100 %, aspect 0.75 to 1.33).
"""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

from crop_tally import DRAWS, IMAGES, tally
from tensors import save


@tf.function
def draw(count, width, height):
    boxes = tf.TensorArray(tf.int32, count)
    for i in tf.range(count):
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            (height, width, 3), tf.zeros([0, 0, 4], tf.float32), area_range=(0.05, 1.0), aspect_ratio_range=(0.75, 1.33),
            min_object_covered=0, use_image_if_no_bounding_boxes=True)
        boxes = boxes.write(i, tf.stack([begin[1], begin[0], size[1], size[0]]))
    return boxes.stack()


def main():
    tf.random.set_seed(0)
    tensors = {}
    for name, (width, height) in IMAGES.items():
        boxes = draw(DRAWS, width, height).numpy()
        tensors |= {f"{name}/{key}": counts for key, counts in tally(boxes, width, height).items()}
    save("tensorflow_crop_draws.safetensors", tensors, {"images": IMAGES, "draws": DRAWS})


if __name__ == "__main__":
    main()
