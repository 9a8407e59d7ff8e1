"""Data sets in the formats that sources read, each by the library that owns it: tests/references/formats/.

Run: tools/references/run.sh data_formats, or `python data_formats.py` in its environment (requirements-formats.txt).

samples.json  the samples, in order: image (a file in images/), label, class (its name), caption
images/       twelve small pictures, JPEG and PNG
tfrecord/     TensorFlow: two shards of classic ImageNet Examples (labels from 1), one each of GZIP and ZLIB
tfds/         TFDS: toy/1.0.0 (TFRecord, splits train of two shards and test), toy/array/1.0.0 (ArrayRecord)
array_record/ the array_record module: <compression>-<group size>.array_record
wds/          webdataset: two shards; tarfile: names beyond ustar's in pax and GNU form
parquet/      datasets: an image data set with a ClassLabel, row groups of five, in two files
"""
import io
import json
import os
import pathlib
import shutil
import tarfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["HF_DATASETS_OFFLINE"] = "1"

import datasets
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
import webdataset
from array_record.python import array_record_module
from PIL import Image

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "references" / "formats"
CLASSES = ["cat", "dog", "owl"]
COUNT = 12


def picture(i):
    y, x = np.mgrid[0:9 + i, 0:12]
    rgb = np.stack([(x * 20 + i * 9) % 256, (y * 17 + i * 31) % 256, (x * y + i) % 256], axis=-1).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(rgb).save(data, "PNG" if i % 3 == 0 else "JPEG")
    return data.getvalue(), "png" if i % 3 == 0 else "jpg"


def samples():
    rows = []
    for i in range(COUNT):
        data, kind = picture(i)
        rows.append({"image": f"{i:02d}.{kind}", "bytes": data, "label": i * 2 % 3, "caption": f"picture {i}, näher"})
    return rows


def feature(value):
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def example(row):
    return tf.train.Example(features=tf.train.Features(feature={
        "image/encoded": feature(row["bytes"]),
        "image/class/label": feature(row["label"] + 1),
        "image/class/text": feature(CLASSES[row["label"]].encode()),
        "image/caption": feature(row["caption"].encode()),
        "image/height": feature(9),
        "image/object/bbox/xmin": tf.train.Feature(float_list=tf.train.FloatList(value=[0.1, 0.5])),
    })).SerializeToString(deterministic=True)


def write_tfrecords(rows):
    folder = OUT / "tfrecord"
    folder.mkdir()
    for shard, part in enumerate((rows[:7], rows[7:])):
        with tf.io.TFRecordWriter(str(folder / f"train-{shard:05d}-of-00002")) as writer:
            for row in part:
                writer.write(example(row))
    for kind in ("GZIP", "ZLIB"):
        with tf.io.TFRecordWriter(str(folder / f"{kind.lower()}.tfrecord"), options=kind) as writer:
            writer.write(example(rows[0]))


def toy(rows, config=None):
    class Toy(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=config)] if config else []

        def _info(self):
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict({
                    "image": tfds.features.Image(encoding_format="jpeg"),
                    "label": tfds.features.ClassLabel(names=CLASSES),
                    "caption": tfds.features.Text(),
                }),
                supervised_keys=("image", "label"),
                disable_shuffling=True,
            )

        def _split_generators(self, manager):
            return {"train": self._generate_examples(rows[:9]), "test": self._generate_examples(rows[9:])}

        def _generate_examples(self, part):
            for i, row in enumerate(part):
                yield i, {"image": io.BytesIO(row["bytes"]), "label": row["label"], "caption": row["caption"]}

    Toy.name = "toy"
    return Toy


def write_tfds(rows):
    for config, file_format in ((None, "tfrecord"), ("array", "array_record")):
        with tfds.core.registered.skip_registration():
            builder_class = toy(rows, config)
        builder = builder_class(data_dir=str(OUT / "tfds"), file_format=file_format)
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=2))
    for path in (OUT / "tfds").rglob("*"):
        if path.name in ("downloads", "extracted", "incomplete") and path.is_dir():
            shutil.rmtree(path)


def write_array_records(rows):
    folder = OUT / "array_record"
    folder.mkdir()
    for name in ("zstd", "brotli", "snappy", "uncompressed"):
        for group in (1, 5):
            path = str(folder / f"{name}-{group}.array_record")
            writer = array_record_module.ArrayRecordWriter(path, f"group_size:{group},{name}")
            for row in rows:
                writer.write(example(row))
            writer.close()
    # More than one block of 64 KiB, records that cross its border, and an empty one.
    writer = array_record_module.ArrayRecordWriter(str(folder / "blocks.array_record"), "group_size:2,uncompressed")
    for i in range(6):
        writer.write(bytes((i * 37 + j * j) % 251 for j in range(0 if i == 3 else 20000 + i)))
    writer.close()
    writer = array_record_module.ArrayRecordWriter(str(folder / "transposed.array_record"), "group_size:4,transpose,zstd")
    for row in rows:
        writer.write(example(row))
    writer.close()


def write_tars(rows):
    folder = OUT / "wds"
    folder.mkdir()
    for shard, part in enumerate((rows[:7], rows[7:])):
        with webdataset.TarWriter(str(folder / f"train-{shard:03d}.tar"), mtime=0.0) as writer:
            for row in part:
                stem, kind = row["image"].split(".")
                writer.write({
                    "__key__": f"some.folder/{stem}",
                    kind: row["bytes"],
                    "cls": row["label"],
                    "txt": row["caption"],
                    "json": {"caption": row["caption"], "name": CLASSES[row["label"]]},
                })
    for name, form in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT)):
        with tarfile.open(folder / f"{name}.tar", "w", format=form) as archive:
            for row in rows[:3]:
                stem, kind = row["image"].split(".")
                for extension, data in ((kind, row["bytes"]), ("cls", str(row["label"]).encode())):
                    member = tarfile.TarInfo(f"{'deep/' * 30}näher-{stem * 60}.{extension}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))


def write_parquet(rows):
    folder = OUT / "parquet"
    folder.mkdir()
    features = datasets.Features({
        "image": datasets.Image(), "label": datasets.ClassLabel(names=CLASSES), "caption": datasets.Value("string"),
    })
    for shard, part in enumerate((rows[:7], rows[7:])):
        table = datasets.Dataset.from_dict({
            "image": [{"bytes": row["bytes"], "path": row["image"]} for row in part],
            "label": [row["label"] for row in part],
            "caption": [row["caption"] for row in part],
        }, features=features)
        table.to_parquet(str(folder / f"train-{shard:05d}-of-00002.parquet"), batch_size=5)


def main():
    if OUT.exists():
        shutil.rmtree(OUT)
    (OUT / "images").mkdir(parents=True)
    rows = samples()
    for row in rows:
        (OUT / "images" / row["image"]).write_bytes(row["bytes"])
    (OUT / "samples.json").write_text(json.dumps(
        [{"image": r["image"], "label": r["label"], "class": CLASSES[r["label"]], "caption": r["caption"]} for r in rows],
        indent=1, ensure_ascii=False) + "\n")
    write_tfrecords(rows)
    write_tfds(rows)
    write_array_records(rows)
    write_tars(rows)
    write_parquet(rows)


if __name__ == "__main__":
    main()
