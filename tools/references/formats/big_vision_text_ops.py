"""big_vision's ops on texts, run by its own code: tests/references/text/big_vision_ops.json.

Run: BIG_VISION=<a checkout at commit 0127fb6> tools/references/run.sh big_vision_text_ops (TensorFlow's environment). What its modules
import besides TensorFlow these ops do not use, so that empty modules stand in for it.

cases  [{call: as Tessera writes it, texts: {name: [text, …]}, to: the name of the result, result: [text, …]}]
lookup [{file: its content, sep, texts: {text: number}}]: -1 for a text that is not there
"""
import json
import os
import pathlib
import sys
import tempfile
import types

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, os.environ["BIG_VISION"])
for name in ("jax", "sentencepiece", "sentencepiece.sentencepiece_model_pb2", "big_vision.utils", "big_vision.pp.tokenizer"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["jax"].tree = types.SimpleNamespace(map=lambda f, x: f(x))
sys.modules["sentencepiece"].SentencePieceProcessor = None
sys.modules["sentencepiece"].sentencepiece_model_pb2 = sys.modules["sentencepiece.sentencepiece_model_pb2"]
sys.modules["sentencepiece.sentencepiece_model_pb2"].ModelProto = None
sys.modules["big_vision.pp.tokenizer"].Tokenizer = object

import tensorflow as tf
from big_vision.pp import ops_general, ops_text

OUT = pathlib.Path(__file__).resolve().parents[3] / "tests" / "references" / "text" / "big_vision_ops.json"
ONE = {"question": "What is this?", "answer": "A {cat}, näher", "empty": ""}
MANY = {"captions": ["One", "Two TWO", "ÄÖ"], "titles": ["x", "y", "z"], "none": []}


def tensors():
    data = {key: tf.constant(text) for key, text in ONE.items()}
    data["label"] = tf.constant(3, tf.int64)
    data.update({key: tf.constant(texts, tf.string) for key, texts in MANY.items()})
    data["captions"], nested = data["captions"], {"text": data["captions"]}
    return data, nested


def texts_of(value):
    return [text.decode() if isinstance(text, bytes) else str(text) for text in tf.reshape(value, [-1]).numpy()]


def case(call, op, to, nested=False):
    data, captions = tensors()
    inputs = {key: texts_of(value) for key, value in data.items()}
    if nested:
        data["captions"] = captions
        inputs["captions/text"] = inputs.pop("captions")
    return {"call": call, "texts": inputs, "to": to, "result": texts_of(op(data)[to])}


def strfmt(template, to="text"):
    return case(f"strfmt({json.dumps(template, ensure_ascii=False)}, to={to})", ops_text.get_strfmt(template, to), to)


def lookup(content, sep=None):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(content)
        file.flush()
        op = ops_general.get_lookup(file.name, sep=sep, key="text")
        texts = ["cat", "dog", "Dog", "a b", "", "owl "]
        return {"file": content, "sep": sep or "", "texts": {t: int(op({"text": tf.constant(t)})["text"]) for t in texts}}


cases = [
    strfmt("answer en {question}"), strfmt("{question}{answer}"), strfmt("{{{empty}}} {question} }}"), strfmt("plain"), strfmt(""),
    strfmt("class {label}"), strfmt("{label}: {captions}"),
    strfmt("{titles}: {captions}, {question}", "captions"), strfmt("{none}!", "question"),
    case("lower(captions)", ops_text.get_lower(key="captions"), "captions"),
    case("lower(answer, to=low)", ops_text.get_lower(inkey="answer", outkey="low"), "low"),
    case("setdefault(none, no text)", ops_general.get_setdefault("none", "no text"), "none"),
    case("setdefault(captions, no text)", ops_general.get_setdefault("captions", "no text"), "captions"),
    case("concat([captions, none, titles], to=all)", ops_general.get_concat(["captions", "none", "titles"], "all", 0), "all"),
    case("concat([titles, captions])", ops_general.get_concat(["titles", "captions"]), "titles"),
    case("copy(titles, to=captions)", ops_general.get_copy("titles", "captions"), "captions"),
    case("coco_captions", ops_text.get_coco_captions(), "captions", nested=True),
    case("coco_captions(to=all)", ops_text.get_coco_captions("all"), "all", nested=True),
]
lookups = [lookup("cat\ndog\na b\n"), lookup("dog\n\ncat"), lookup("cat,7\ndog,0\na b,7\n", ","), lookup("cat\t3\n", "\t")]
OUT.write_text(json.dumps({"cases": cases, "lookup": lookups}, indent=1, ensure_ascii=False) + "\n")
