"""Images a second of another input pipeline on a folder of photographs; one JSON object.

  python peers.py PEER TASK FOLDER WORKERS [IMAGES=1000]

PEER: pillow, timm, tf, tf-antialias, dali, dali-antialias or grain, whichever the Python at hand has.
TASK: crop      random resized crop (area 8 to 100 %, aspect 3/4 to 4/3) to 224, flip
      augment   timm's training transform: the same with random interpolation, rand-m9-mstd0.5-inc1, jitter 0.4, erasing 0.25
      eval      the shorter side to 256, the central 224
Out come batches of 32 images as bytes. WORKERS: threads or, where a peer works with processes, processes.
"""
import itertools
import json
import math
import os
import pathlib
import random
import sys
import time

SIZE, RESIZE, BATCH = 224, 256, 32
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)


def crop_box(width, height, rng):
    """timm.data.transforms.RandomResizedCropAndInterpolation.get_params."""
    for _ in range(10):
        area = rng.uniform(*AREA) * width * height
        ratio = math.exp(rng.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if w <= width and h <= height:
            x, y = rng.randint(0, width - w), rng.randint(0, height - h)
            return x, y, x + w, y + h
    return 0, 0, width, height


def load_with_pillow(path, task, rng):
    from PIL import Image

    with open(path, "rb") as file:
        image = Image.open(file).convert("RGB")
    if task == "eval":
        scale = RESIZE / min(image.size)
        image = image.resize((int(image.width * scale), int(image.height * scale)), Image.BILINEAR)
        x, y = (image.width - SIZE) // 2, (image.height - SIZE) // 2
        return image.crop((x, y, x + SIZE, y + SIZE))
    image = image.crop(crop_box(*image.size, rng)).resize((SIZE, SIZE), Image.BILINEAR)
    return image.transpose(Image.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image


def pillow(files, task, workers):
    assert workers == 1
    rng = random.Random(0)
    for batch in batches_of(files):
        yield [load_with_pillow(path, task, rng).tobytes() for path in batch]


def timm(files, task, workers):
    import torch
    from PIL import ImageOps
    from timm.data import create_loader
    from timm.data.dataset import ImageDataset
    from timm.data.transforms_factory import transforms_imagenet_eval, transforms_imagenet_train

    # timm draws posterize to 0 bits, which Pillow knew as black and, from 12 on, refuses.
    posterize = ImageOps.posterize
    ImageOps.posterize = lambda image, bits: posterize(image, bits) if bits >= 1 else image.point(lambda _: 0)
    torch.set_num_threads(1)
    dataset = ImageDataset(str(pathlib.Path(files[0]).parent.parent))
    augments, evaluates = task == "augment", task == "eval"
    loader = create_loader(dataset, (3, SIZE, SIZE), BATCH, is_training=not evaluates, num_workers=workers, use_prefetcher=True,
                           re_prob=0.25 if augments else 0, re_mode="pixel", device=torch.device("cpu"), persistent_workers=True)
    # create_loader has no flag for jitter beside RandAugment.
    more = dict(auto_augment="rand-m9-mstd0.5-inc1", color_jitter=0.4, force_color_jitter=True, interpolation="random") if augments else {}
    if evaluates:
        dataset.transform = transforms_imagenet_eval(SIZE, crop_pct=SIZE / RESIZE, use_prefetcher=True)
    else:
        more = dict(color_jitter=None, interpolation="bilinear") | more
        dataset.transform = transforms_imagenet_train(SIZE, scale=AREA, ratio=ASPECT, hflip=0.5, use_prefetcher=True, **more)
    while True:
        yield from (images for images, _ in loader)


def tf(files, task, workers, antialias=False):
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf_

    tf_.config.threading.set_intra_op_parallelism_threads(workers)
    tf_.config.threading.set_inter_op_parallelism_threads(workers)

    def crop(path):
        data = tf_.io.read_file(path)
        begin, size, _ = tf_.image.sample_distorted_bounding_box(
            tf_.image.extract_jpeg_shape(data), tf_.zeros([1, 0, 4]), area_range=AREA, aspect_ratio_range=ASPECT, min_object_covered=0.0,
            use_image_if_no_bounding_boxes=True)
        window = tf_.stack([begin[0], begin[1], size[0], size[1]])
        image = tf_.image.resize(tf_.io.decode_and_crop_jpeg(data, window, channels=3), [SIZE, SIZE], antialias=antialias)
        return tf_.cast(tf_.image.random_flip_left_right(image), tf_.uint8)

    def evaluate(path):
        image = tf_.io.decode_jpeg(tf_.io.read_file(path), channels=3)
        shape = tf_.cast(tf_.shape(image)[:2], tf_.float32)
        side = tf_.cast(tf_.round(shape * (RESIZE / tf_.reduce_min(shape))), tf_.int32)
        image = tf_.image.resize(image, side, antialias=antialias)
        return tf_.cast(tf_.image.resize_with_crop_or_pad(image, SIZE, SIZE), tf_.uint8)

    data = tf_.data.Dataset.from_tensor_slices(files).repeat()
    data = data.map(evaluate if task == "eval" else crop, num_parallel_calls=workers, deterministic=False).batch(BATCH).prefetch(2)
    options = tf_.data.Options()
    options.threading.private_threadpool_size = workers
    options.autotune.enabled = False
    yield from data.with_options(options)


def tf_antialias(files, task, workers):
    return tf(files, task, workers, antialias=True)


def dali(files, task, workers, antialias=False):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=workers, device_id=None)
    def pipeline():
        data, _ = fn.readers.file(files=files)
        resize = dict(interp_type=types.INTERP_LINEAR, antialias=antialias)
        if task == "eval":
            image = fn.resize(fn.decoders.image(data, output_type=types.RGB), resize_shorter=RESIZE, **resize)
            return fn.crop(image, crop=(SIZE, SIZE))
        image = fn.decoders.image_random_crop(data, output_type=types.RGB, random_area=AREA, random_aspect_ratio=ASPECT)
        return fn.flip(fn.resize(image, size=(SIZE, SIZE), **resize), horizontal=fn.random.coin_flip())

    pipe = pipeline()
    pipe.build()
    while True:
        yield pipe.run()


def dali_antialias(files, task, workers):
    return dali(files, task, workers, antialias=True)


def grain(files, task, workers):
    import grain.python as pygrain
    import numpy

    class Load(pygrain.RandomMapTransform):
        def random_map(self, path, rng):
            return numpy.asarray(load_with_pillow(path, task, random.Random(int(rng.integers(1 << 62)))))

    data = pygrain.MapDataset.source(files).seed(0).shuffle().repeat().random_map(Load()).batch(BATCH)
    # Threads, not processes: Pillow lets go of the interpreter's lock while it decodes.
    data = data.to_iter_dataset(pygrain.ReadOptions(num_threads=workers, prefetch_buffer_size=4))
    yield from data


def batches_of(files):
    for i in itertools.count():
        yield [files[(i * BATCH + k) % len(files)] for k in range(BATCH)]


def main():
    peer, task, folder, workers = sys.argv[1:5]
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 1000
    files = sorted(str(p) for p in pathlib.Path(folder).rglob("*.jpg"))
    batches = iter(globals()[peer.replace("-", "_")](files, task, int(workers)))
    for _ in range(8):  # what lies ready at the start would flatter the figures
        next(batches)
    steps = max(1, count // BATCH)
    start = time.perf_counter()
    for _ in range(steps):
        next(batches)
    seconds = time.perf_counter() - start
    print(json.dumps({"program": peer, "task": task, "workers": int(workers), "images_per_second": round(steps * BATCH / seconds, 1)}), flush=True)
    os._exit(0)  # workers and pools need not be waited for


if __name__ == "__main__":
    main()
