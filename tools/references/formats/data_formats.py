"""Data sets in the formats that sources read, each by the library that owns it: tests/references/formats/.

Run: tools/references/run.sh data_formats, or `python data_formats.py` in its environment (requirements-formats.txt).

samples.json  the samples, in order: image (a file in images/), label, class (its name), caption, captions (a list, of none to three)
images/       twelve small pictures, JPEG and PNG
tfrecord/     TensorFlow: two shards of classic ImageNet Examples (labels from 1), one each of GZIP and ZLIB
tfds/         TFDS: toy/1.0.0 (TFRecord, splits train of two shards and test), toy/array/1.0.0 (ArrayRecord), listed/1.0.0 (lists of texts)
tfds_splits.json  what TFDS makes of splits and even splits of a set with shards of 100, 0, 30 and 7 samples: [begin, end) ranges
array_record/ the array_record module: <compression>-<group size>.array_record
wds/          webdataset: two shards; tarfile: names beyond ustar's in pax and GNU form
parquet/      datasets: an image data set with a ClassLabel, row groups of five, in two files; lists.parquet with lists of texts and
              of structs; pyarrow: arrow_lists.parquet with every kind of list, dictionaries.parquet with pandas' categories,
              bomb.parquet with a sample of 1.5 GB
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
import pandas
import pyarrow as pa
import pyarrow.parquet
import tensorflow as tf
import tensorflow_datasets as tfds
import webdataset
from array_record.python import array_record_module
from PIL import Image

OUT = pathlib.Path(__file__).resolve().parents[3] / "tests" / "references" / "formats"
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
        rows.append({"image": f"{i:02d}.{kind}", "bytes": data, "label": i * 2 % 3, "caption": f"picture {i}, näher",
                     "captions": [f"{word} {i}" for word in ("one", "zwei", "três")[:i % 4]]})
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


class Listed(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    rows = []

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, disable_shuffling=True, features=tfds.features.FeaturesDict({
            "image": tfds.features.Image(encoding_format="jpeg"),
            "texts": tfds.features.Sequence(tfds.features.Text()),
            "captions": tfds.features.Sequence({"text": tfds.features.Text(), "id": np.int64}),
            "labels": tfds.features.Sequence(tfds.features.ClassLabel(names=CLASSES)),
        }))

    def _split_generators(self, manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for i, row in enumerate(self.rows):
            yield i, {"image": io.BytesIO(row["bytes"]), "texts": row["captions"], "labels": [row["label"]],
                      "captions": [{"text": text, "id": k} for k, text in enumerate(row["captions"])]}


def write_tfds_lists(rows):
    Listed.rows = rows
    Listed(data_dir=str(OUT / "tfds")).download_and_prepare()


def write_tfds(rows):
    for config, file_format in ((None, "tfrecord"), ("array", "array_record")):
        with tfds.core.registered.skip_registration():
            builder_class = toy(rows, config)
        builder = builder_class(data_dir=str(OUT / "tfds"), file_format=file_format)
        builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=2))
    write_tfds_lists(rows)
    for path in (OUT / "tfds").rglob("*"):
        if path.name in ("downloads", "extracted", "incomplete") and path.is_dir():
            shutil.rmtree(path)


def write_tfds_splits():
    lengths = [100, 0, 30, 7]
    infos = {name: tfds.core.SplitInfo(name=name, shard_lengths=sizes, num_bytes=0, filename_template=tfds.core.ShardedFileTemplate(
        dataset_name="x", data_dir="/x", split=name, filetype_suffix="tfrecord")) for name, sizes in (("train", lengths), ("test", [9]))}
    infos = tfds.core.splits.SplitDict(infos.values())
    def ranges(split):
        out = []
        for one in split.to_absolute(infos):
            count = infos[one.splitname].num_examples
            begin, end = one.from_ or 0, count if one.to is None else one.to
            out.append([one.splitname, begin, max(begin, end)])
        return out
    from_spec = tfds.core.splits.AbstractSplit.from_spec
    specs = ["train", "train[:10]", "train[-10:]", "train[:-10]", "train[:1_0]", "train[10%:]", "train[:12.5%]", "train[-12.5%:]",
             "train[33%:66%]", "train[10:90%]", "train[10%:90]", "train[:1shard]", "train[1shard:]", "train[-1shard:]", "train[0shard]",
             "train[2shard]", "train[-1shard]", "train[-2shard]", "train[:-1shard]", "train[1:3shard]", "train[:50shard]",
             "train[9shard]", "train[90:20]", "all", "test+train[:1shard]", "train[0.5%:0.6%]", "train[-1%:]", "test[:-1%]"]
    found = {"splits": {spec: ranges(from_spec(spec)) for spec in specs}, "pct1": {}, "even": []}
    for begin, end in ((None, 10), (10, None), (-10, None), (0, 100)):
        spec = f"train[{'' if begin is None else begin}%:{'' if end is None else end}%]".replace("[%", "[").replace(":%", ":")
        found["pct1"][spec] = ranges(tfds.core.ReadInstruction("train", from_=begin, to=end, unit="%", rounding="pct1_dropremainder"))
    for spec in ("train", "train[:11]", "train[:-1shard]+test"):
        for n in (1, 3, 4):
            for drop in (False, True):
                for i, part in enumerate(tfds.even_splits(spec, n, drop_remainder=drop)):
                    found["even"].append({"split": spec, "n": n, "index": i, "drop_remainder": drop, "ranges": ranges(part)})
    (OUT / "tfds_splits.json").write_text(json.dumps(found) + "\n")


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


def write_parquet_lists(rows):
    table = datasets.Dataset.from_dict({
        "image": [{"bytes": row["bytes"], "path": row["image"]} for row in rows],
        "captions": [row["captions"] for row in rows],
        "sentences": [[{"raw": text, "number": k} for k, text in enumerate(row["captions"])] for row in rows],
        "answers": [{"text": row["captions"], "start": [0] * len(row["captions"])} for row in rows],
    }, features=datasets.Features({
        "image": datasets.Image(), "captions": datasets.List(datasets.Value("string")),
        "sentences": datasets.List({"raw": datasets.Value("string"), "number": datasets.Value("int32")}),
        "answers": {"text": datasets.List(datasets.Value("string")), "start": datasets.List(datasets.Value("int32"))},
    }))
    table.to_parquet(str(OUT / "parquet" / "lists.parquet"), batch_size=5)
    captions = [row["captions"] for row in rows]
    odd = captions[:-2] + [None, ["there", None]]
    columns = {
        "image": pa.array([row["bytes"] for row in rows]),
        "large": pa.array(captions, pa.large_list(pa.large_string())),
        "pair": pa.array([[row["caption"], row["image"]] for row in rows], pa.list_(pa.string(), 2)),
        "odd": pa.array(odd, pa.list_(pa.string())),
        "nested": pa.array([[texts] for texts in captions], pa.list_(pa.list_(pa.string()))),
        "map": pa.array([[(text, text) for text in texts] for texts in captions], pa.map_(pa.string(), pa.string())),
        "numbers": pa.array([[row["label"]] for row in rows], pa.list_(pa.int64())),
    }
    pyarrow.parquet.write_table(pa.table(columns), OUT / "parquet" / "arrow_lists.parquet", row_group_size=7)


def write_parquet_dictionaries(rows):
    names = [CLASSES[row["label"]] for row in rows]
    columns = {
        "image": pa.array([row["bytes"] for row in rows]),
        "label": pa.array(pandas.Categorical(names, categories=["owl", "dog", "cat", "none of these"])),
        "number": pa.array(pandas.Categorical([row["label"] for row in rows])),
        "caption": pa.array([row["caption"] for row in rows]).dictionary_encode(),
        "captions": pa.array([row["captions"] for row in rows], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        "gap": pa.array(names[:5] + [None] + names[6:]).dictionary_encode(),
    }
    pyarrow.parquet.write_table(pa.table(columns), OUT / "parquet" / "dictionaries.parquet", row_group_size=7)


def write_parquet_bomb():
    columns = {"image": pa.array([b"small", bytes(1500 << 20)], pa.binary()), "label": pa.array([0, 1])}
    pyarrow.parquet.write_table(pa.table(columns), OUT / "parquet" / "bomb.parquet", compression="brotli", use_dictionary=False,
                                write_statistics=False, store_schema=False)


def main():
    if OUT.exists():
        shutil.rmtree(OUT)
    (OUT / "images").mkdir(parents=True)
    rows = samples()
    for row in rows:
        (OUT / "images" / row["image"]).write_bytes(row["bytes"])
    (OUT / "samples.json").write_text(json.dumps(
        [{"image": r["image"], "label": r["label"], "class": CLASSES[r["label"]], "caption": r["caption"],
          "captions": r["captions"]} for r in rows],
        indent=1, ensure_ascii=False) + "\n")
    write_tfrecords(rows)
    write_tfds(rows)
    write_tfds_splits()
    write_array_records(rows)
    write_tars(rows)
    write_parquet(rows)
    write_parquet_lists(rows)
    write_parquet_dictionaries(rows)
    write_parquet_bomb()


if __name__ == "__main__":
    main()
