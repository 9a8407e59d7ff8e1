"""MAT-files as scipy writes them, with what scipy reads of them: tests/references/mat/.

Run: tools/references/run.sh mat_files

devkit.mat, devkit_plain.mat and devkit_other.mat have the fields of ImageNet's meta.mat (ILSVRC2012_devkit_t12): a struct array
`synsets` of three classes and a class of classes; packed; plain and behind another variable; and as the devkit of 2010 names its
fields. mat.json has what scipy.io.loadmat reads of the first two.
"""
import json
from pathlib import Path

import numpy as np
from scipy import io

OUT = Path(__file__).resolve().parents[3] / "tests" / "references" / "mat"

SYNSETS = [  # number, WordNet id, words, gloss, children, training images
    (1, "n02119789", "kit fox, Vulpes macrotis", "small grey fox", [], 3),
    (2, "n02100735", "English setter", "", [], 2),
    (3, "n02110185", "Siberian husky; crêpe 猫", "breed of sled dog", [], 4),
    (1001, "n02083346", "canine, canid", "any of various fissiped mammals", [1, 2, 3], 0),
]


def structs(number_name):
    names = [number_name, "WNID", "words", "gloss", "num_children", "children", "wordnet_height", "num_train_images"]
    out = np.zeros((len(SYNSETS), 1), dtype=[(name, object) for name in names])
    for i, (number, wnid, words, gloss, children, images) in enumerate(SYNSETS):
        out[i, 0] = (float(number), wnid, words, gloss, float(len(children)), np.array(children, float), 0.0, float(images))
    return out


def main():
    OUT.mkdir(exist_ok=True)
    synsets = structs("ILSVRC2012_ID")
    io.savemat(OUT / "devkit.mat", {"synsets": synsets}, do_compression=True)
    io.savemat(OUT / "devkit_plain.mat", {"extra": np.arange(6.0).reshape(2, 3), "synsets": synsets, "word": "synsets"})
    io.savemat(OUT / "devkit_other.mat", {"synsets": structs("ILSVRC2010_ID")}, do_compression=True)
    numbers = {"values": np.array([[(np.int8(-3), np.uint16(65535), np.float32(0.5), np.int64(2**40), True, "x")]], dtype=[
        (name, object) for name in ("int8", "uint16", "single", "int64", "yes", "text")])}
    io.savemat(OUT / "numbers.mat", numbers)
    read = {}
    for name in ("devkit", "devkit_plain"):
        got = io.loadmat(OUT / f"{name}.mat", squeeze_me=True)["synsets"]
        read[name] = [[float(s["ILSVRC2012_ID"]), str(s["WNID"]), str(s["words"]), float(s["num_train_images"])] for s in got]
    for path in OUT.glob("*.mat"):  # the time in the header, so that the bytes are the same on every run
        content = bytearray(path.read_bytes())
        content[:116] = b"MATLAB 5.0 MAT-file, written by scipy.io.savemat".ljust(116)
        path.write_bytes(content)
    (OUT / "mat.json").write_text(json.dumps(read, indent=1) + "\n")


if __name__ == "__main__":
    main()
