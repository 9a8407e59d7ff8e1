"""Reads what `tessera data convert` writes with TFDS, TensorFlow, array_record and webdataset, and compares the samples.

Run (run.sh makes the environment; bin/tessera is ./dev build's):
  tools/references/run.sh check_convert

The samples of tests/references/formats, with classes, a caption and a list of none to three captions each, are
converted to every format in several shards. Compared are images byte for byte (and decoded, where the library does
that), classes with their names, captions, lists of captions, the number of samples and their order. Prints a line for
each reading; exits 1 at the first difference.
"""
import io
import json
import os
import pathlib
import subprocess
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
import webdataset
from array_record.python import array_record_data_source, array_record_module
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[3]
FORMATS = ROOT / "tests" / "references" / "formats"
CLASSES = ["cat", "dog", "owl"]


def samples():
    rows = json.loads((FORMATS / "samples.json").read_text())
    return [row | {"bytes": (FORMATS / "images" / row["image"]).read_bytes()} for row in rows]


def convert(rows, folder):
    """The folder of each format."""
    lines = folder / "lines.jsonl"
    with lines.open("w") as file:
        for row in rows:
            file.write(json.dumps({"image": str(FORMATS / "images" / row["image"]), "class": row["class"],
                                   "caption": row["caption"], "captions": row["captions"]}) + "\n")
    out = {}
    for form in ("tfrecord", "array_record", "tar"):
        out[form] = folder / f"set_{form}"
        subprocess.run([ROOT / "bin" / "tessera", "data", "convert", f"jsonl({lines}, label=class, text=[caption, captions])",
                        "--to", form, "--out", out[form], "--shard-size", "2000"], check=True)
    return out


def equal(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: {got!r:.300} instead of {wanted!r:.300}")


def tf_pixels(data):
    return tf.io.decode_image(data, channels=3).numpy()


def pil_pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def compare(what, found, rows, pixels=tf_pixels):
    """`found`: a dict a sample. `pixels`: as the library decodes JPEG."""
    found = list(found)
    equal(f"{what}: samples", len(found), len(rows))
    for i, (got, row) in enumerate(zip(found, rows)):
        for key in ("bytes", "label", "caption", "captions"):
            if key in got:
                equal(f"{what}: {key} of sample {i}", got[key], row[key])
        if "pixels" in got:
            equal(f"{what}: pixels of sample {i}", got["pixels"].tolist(), pixels(row["bytes"]).tolist())
    print(f"{what}: {len(found)} samples, {', '.join(found[0])}", flush=True)


def texts(values):
    return [bytes(value).decode() for value in values]


def of_tfds(sample):
    return {"pixels": np.asarray(sample["image"]), "label": int(sample["label"]), "caption": texts([sample["caption"]])[0],
            "captions": texts(sample["captions"])}


def of_example(record):
    features = tf.train.Example.FromString(record).features.feature
    return {"bytes": features["image"].bytes_list.value[0], "label": features["label"].int64_list.value[0],
            "caption": texts(features["caption"].bytes_list.value)[0], "captions": texts(features["captions"].bytes_list.value)}


def check_tfds(form, folder, rows):
    builder = tfds.builder_from_directory(str(folder / "1.0.0"))
    equal(f"{form}: name and version", builder.info.full_name, f"set_{form}/1.0.0")
    equal(f"{form}: classes", builder.info.features["label"].names, CLASSES)
    equal(f"{form}: supervised keys", builder.info.supervised_keys, ("image", "label"))
    equal(f"{form}: samples of the split", builder.info.splits["train"].num_examples, len(rows))
    if form == "array_record":
        compare(f"{form}, as_data_source", map(of_tfds, builder.as_data_source(split="train")), rows, pil_pixels)
    else:
        as_numpy = lambda split, **options: tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False, **options))
        compare(f"{form}, as_dataset", map(of_tfds, as_numpy("train")), rows)
        raw = as_numpy("train", decoders={"image": tfds.decode.SkipDecoding()})
        compare(f"{form}, SkipDecoding", ({"bytes": sample["image"], "label": int(sample["label"])} for sample in raw), rows)
        halves = [*as_numpy("train[:50%]"), *as_numpy("train[50%:]")]
        compare(f"{form}, train[:50%] and train[50%:]", map(of_tfds, halves), rows)
    # A set of its own name below the data directory.
    loaded = tfds.builder(f"set_{form}", data_dir=str(folder.parent))
    equal(f"{form}: tfds.builder", loaded.info.splits["train"].shard_lengths, builder.info.splits["train"].shard_lengths)


def check_records(folders, rows):
    paths = sorted(map(str, (folders["tfrecord"] / "1.0.0").glob("*.tfrecord-*")))
    compare("tfrecord, TFRecordDataset", map(of_example, tf.data.TFRecordDataset(paths).as_numpy_iterator()), rows)
    paths = sorted(map(str, (folders["array_record"] / "1.0.0").glob("*.array_record-*")))
    source = array_record_data_source.ArrayRecordDataSource(paths)
    compare("array_record, ArrayRecordDataSource", map(of_example, source.__getitems__(list(range(len(source))))), rows)
    records = []
    for path in paths:
        reader = array_record_module.ArrayRecordReader(path)
        equal(f"{path}: ok", reader.ok(), True)
        records += reader.read_all()
        reader.close()
    compare("array_record, ArrayRecordReader", map(of_example, records), rows)


def check_tar(folder, rows):
    def of_sample(sample):
        kind = next(key for key in ("jpg", "png") if key in sample)
        data = json.loads(sample["json"])
        # One text is written as itself.
        captions = data["captions"] if isinstance(data["captions"], list) else [data["captions"]]
        equal("tar: txt", sample["txt"].decode(), data["caption"])
        return {"bytes": sample[kind], "label": int(sample["cls"]), "caption": data["caption"], "captions": captions}

    urls = sorted(map(str, folder.glob("*-train-*.tar")))
    dataset = webdataset.WebDataset(urls, shardshuffle=False)
    compare("tar, WebDataset", map(of_sample, dataset), rows)
    decoded = webdataset.WebDataset(urls, shardshuffle=False).decode("rgb8").to_tuple("jpg;png", "cls")
    compare("tar, decode(rgb8)", ({"pixels": image, "label": label} for image, label in decoded), rows, pil_pixels)
    equal("tar: classes", (folder / "classes.txt").read_text().split(), CLASSES)


def main():
    rows = samples()
    with tempfile.TemporaryDirectory() as folder:
        folders = convert(rows, pathlib.Path(folder))
        for form in ("tfrecord", "array_record"):
            check_tfds(form, folders[form], rows)
        check_records(folders, rows)
        check_tar(folders["tar"], rows)


if __name__ == "__main__":
    main()
