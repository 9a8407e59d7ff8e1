"""Tokenizers and what they make of ordinary and odd texts: tests/references/text/.

Run: tools/references/run.sh text, or `python text.py` in its environment (requirements-text.txt).

unigram.model, bpe.model   SentencePiece's models, trained here: 400 pieces, pad 0, eos 1, unk 2; and with bytes as pieces for what is
                           in no other, bos 0, eos 1, unk 2 and no pad
gpt2.json, clip.json       tokenizer.json of Hugging Face's tokenizers: byte-level BPE as GPT-2 has it and as CLIP has it
texts.json                 {"texts": [text, …], "ids": {file: [[id, …], …]}, "decoded": {file: [text, …]},
                            "bytes": texts that are no UTF-8, in hexadecimal, "byte_ids": {file: ids of these},
                            "rows": [{model, text, length, eos, bos, pad, lower, ids}, …]}

The rows are written by hand from big_vision's pp/ops_text.py (commit 0127fb6), which is not a package one can install: tokenize(),
with tensorflow_text's SentencepieceTokenizer, which puts bos before and eos after a sentence's ids. Compared once with the original
function in TensorFlow: every row was the same.
"""
import collections
import io
import itertools
import json
import pathlib
import random

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[3] / "tests" / "references" / "text"


def corpus():
    rng = random.Random(0)
    sizes, colours = ["small", "large", "tiny"], ["red", "green", "blue", "yellow"]
    shapes, relations = ["circle", "square", "triangle"], ["left of", "right of", "above", "below"]
    thing = lambda: f"a {rng.choice(sizes)} {rng.choice(colours)} {rng.choice(shapes)}"
    lines = [f"{thing()} {rng.choice(relations)} {thing()}" for _ in range(300)]
    lines += ["A photo of the Dog's 2 bones, isn't it?", "näher größer Übung, ça va déjà vu", "東京の写真です", "Привет, мир!",
              "We'll see: they've 1,234 cats & 5.6 dogs...", "def f(x):\n    return x ** 2", "😀 smiles 👩‍🚀"] * 12
    return lines


TEXTS = [
    "a small red circle left of a blue square", "A Photo of the DOG", "", " ", "   two   spaces\tand a tab  ", "\n\n", "line\r\nbreak",
    "näher größer ÜBUNG", "cafe\u0301 versus caf\u00e9", "\ufb01ne \u210c\u2460\u00bd", "東京の写真です。", "Привет, МИР!", "مرحبا بالعالم",
    "हिन्दी में", "한국어 텍스트", "ไทย", "😀 👩‍🚀 🇩🇪", "a\u200bb\u200d\ufeffc", "\u00a0no-break\u2003em\u3000wide",
    "a\x00b\x01c\x7f\x85d\x0be\x0cf\x1cg\x1fh", "\u0130stanbul \u1e9e \u03a3\u03a3 \u01c5", "isn't we'll THEY'VE I'm 'S 'd''re",
    "1234567 3.14 \u0661\u0662\u0663 \u00b2\u00b3 \u2167", "x**2 + y_1 != <pad></s><unk>", "\u2581low line \u2581",
    "http://example.org/a?b=c&d=%20", "\uffff\ufffd \U0010ffff", "a" * 300, "ab " * 150, "red" + " " * 40 + "blue", "ﷺ", "e\u0323\u0302\u0301" * 5,
    "\u1112\u1161\u11ab", "\u2126\u212b", "...!!!???---", " leading", "trailing ", "\u180e\u2028\u2029x", "red <|endoftext|>circle<|StartOfText|>", "<|startoftext|> a <|endoftext|", "a" * 1500,
]
BYTES = [b"ab\xffc", b"\xc3", b"a\xe2\x82 b", b"\xed\xa0\x80", b"\xf5\x80\x80\x80x"]


def train_sentencepiece(name, lines, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2, num_threads=1,
                                             hard_vocab_limit=False, **options)
    (OUT / name).write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def train_bpe(tokenizer, lines, suffix, marks, merges=160):
    """Vocabulary and merges for the words that the tokenizer makes. tokenizers' own trainer settles ties by hashes, which differ from
    run to run."""
    words = collections.Counter()
    for line in lines:
        text = tokenizer.normalizer.normalize_str(line) if tokenizer.normalizer else line
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text):
            words[(*word[:-1], word[-1] + suffix)] += 1
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces, made = alphabet + ([letter + suffix for letter in alphabet] if suffix else []), []
    for _ in range(merges):
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        made.append(best)
        pieces.append("".join(best))
        words = collections.Counter({merged(word, best): count for word, count in words.items()})
    return {piece: i for i, piece in enumerate(dict.fromkeys(pieces + marks))}, made


def merged(word, pair):
    out, i = [], 0
    while i < len(word):
        both = word[i:i + 2] == pair
        out.append("".join(pair) if both else word[i])
        i += 2 if both else 1
    return tuple(out)


def train_gpt2(lines):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    vocab, merges = train_bpe(tokenizer, lines, "", ["<|endoftext|>"])
    tokenizer.model = models.BPE(vocab, merges)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def train_clip(lines):
    """As openai/clip-vit-base-patch32's tokenizer.json, without its template of start and end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    vocab, merges = train_bpe(tokenizer, lines, "</w>", ["<|startoftext|>", "<|endoftext|>"])
    tokenizer.model = models.BPE(vocab, merges, unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix="")
    tokenizer.add_special_tokens(["<|startoftext|>", "<|endoftext|>"])
    return tokenizer


def lower(text):
    """tf.strings.lower: ASCII."""
    return "".join(c.lower() if c.isascii() else c for c in text)


def row(processor, text, length, eos, bos, pad, lowered):
    ids = processor.encode(lower(text) if lowered else text)
    ids = ([processor.bos_id()] if bos else []) + ids + ([processor.eos_id()] if eos != "no" else [])
    if eos == "sticky" and len(ids) >= length:
        return ids[:length - 1] + ids[-1:]
    return ids[:length] + [pad] * max(0, length - len(ids))


def rows(processors):
    out = []
    texts = ["a Red circle", "A small RED circle LEFT of a large green square", "", "ÄÖ Red"]
    for (model, bos_too), text, length, eos, lowered in itertools.product(
            [("unigram.model", False), ("bpe.model", True)], texts, [1, 2, 8, 40], ["no", "yes", "sticky"], [True, False]):
        for bos, pad in [(False, 0)] + ([(True, 7)] if bos_too else []):
            out.append({"model": model, "text": text, "length": length, "eos": eos, "bos": bos, "pad": pad, "lower": lowered,
                        "ids": row(processors[model], text, length, eos, bos, pad, lowered)})
    return out


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    lines = corpus()
    processors = {
        "unigram.model": train_sentencepiece("unigram.model", lines, vocab_size=400, pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
        "bpe.model": train_sentencepiece("bpe.model", lines, model_type="bpe", vocab_size=480, byte_fallback=True, bos_id=0, eos_id=1,
                                         unk_id=2, pad_id=-1, split_digits=True, normalization_rule_name="identity",
                                         remove_extra_whitespaces=False),
    }
    byte_level = {"gpt2.json": train_gpt2(lines), "clip.json": train_clip(lines)}
    for name, tokenizer in byte_level.items():
        tokenizer.save(str(OUT / name), pretty=False)
    ids = {name: [p.encode(text) for text in TEXTS] for name, p in processors.items()}
    ids |= {name: [t.encode(text, add_special_tokens=False).ids for text in TEXTS] for name, t in byte_level.items()}
    decoded = {name: [p.decode(one) for one in ids[name]] for name, p in processors.items()}
    decoded |= {name: [t.decode(one) for one in ids[name]] for name, t in byte_level.items()}
    byte_ids = {name: [p.encode(text) for text in BYTES] for name, p in processors.items()}
    state = {"texts": TEXTS, "ids": ids, "decoded": decoded, "bytes": [text.hex() for text in BYTES], "byte_ids": byte_ids,
             "rows": rows(processors)}
    (OUT / "texts.json").write_text(json.dumps(state, separators=(",", ":")) + "\n")
    print(f"{OUT.name}: {len(TEXTS)} texts, {len(state['rows'])} rows")


if __name__ == "__main__":
    main()
