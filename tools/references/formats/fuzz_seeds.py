"""Seeds of libFuzzer's targets that are no text: files of tests/fuzz/corpus/.

Run: tools/references/run.sh fuzz_seeds; only Python's own library is used, and the bytes are the same on every run.
"""
import io
import json
import pathlib
import shutil
import struct
import zipfile

CORPUS = pathlib.Path(__file__).resolve().parents[3] / "tests" / "fuzz" / "corpus"


def put(target, name, content):
    folder = CORPUS / target
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, content):
    """Of a protobuf message: a whole number, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


# tar: what POSIX and GNU add to a header.

def header(name, size, kind=b"0", size_field=None, magic=b"ustar\x0000", prefix=b""):
    block = bytearray(512)
    block[0:len(name)] = name
    block[100:108] = b"0000644\0"
    block[124:136] = size_field or b"%011o\0" % size
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257:257 + len(magic)] = magic
    block[345:345 + len(prefix)] = prefix
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(content):
    return content + bytes(-len(content) % 512)


def pax(*records):
    out = b""
    for record in records:
        length = len(record) + 2
        while len(str(length)) + len(record) + 2 != length:
            length = len(str(length)) + len(record) + 2
        out += b"%d %s\n" % (length, record)
    return out


def member(name, content, **fields):
    return header(name, len(content), **fields) + padded(content)


def write_tar():
    long_name = b"folder/" + b"n" * 120 + b".txt"
    files = {
        "pax": member(b"x", pax(b"path=" + long_name, b"size=3", b"mtime=1.5"), kind=b"x") + member(b"short", b"abc"),
        "pax_global": member(b"g", pax(b"comment=none"), kind=b"g") + member(b"a.txt", b"abc"),
        "pax_size_no_number": member(b"x", pax(b"size=-3"), kind=b"x") + member(b"a.txt", b"abc"),
        "pax_no_equals": member(b"x", pax(b"path"), kind=b"x") + member(b"a.txt", b"abc"),
        "pax_wrong_length": member(b"x", b"99 path=a\n", kind=b"x") + member(b"a.txt", b"abc"),
        "gnu": member(b"././@LongLink", long_name + b"\0", kind=b"L", magic=b"ustar  \0") + member(long_name[:99], b"abc"),
        "gnu_link": member(b"././@LongLink", long_name + b"\0", kind=b"K") + member(b"a.txt", b"", kind=b"2"),
        "base_256": member(b"a.txt", b"abc", size_field=b"\x80" + (3).to_bytes(11, "big")),
        "base_256_too_large": member(b"a.txt", b"abc", size_field=b"\xbf" + b"\xff" * 11),
        "blank_size": member(b"a.txt", b"", size_field=b" " * 12) + member(b"b.txt", b"", size_field=b"\0" * 12),
        "no_octal": member(b"a.txt", b"", size_field=b"9" * 12),
        "prefix": member(b"name.txt", b"abc", prefix=b"folder"),
        "old": member(b"name.txt", b"abc", kind=b"\0", magic=b""),
        "directory": member(b"folder/", b"", kind=b"5") + bytes(1024),
        "no_member_behind": member(b"x", pax(b"path=a"), kind=b"x"),
        "huge_name": header(b"x", 2 << 20, kind=b"x"),
        "cut": header(b"a.txt", 600) + bytes(512),
    }
    for name, content in files.items():
        put("tar", name, content)
    samples = member(b"./a.JPG", b"1") + member(b"__meta__/x.txt", b"") + member(b"a.txt", b"2") + member(b"no_dot", b"3")
    put("wds_resealed", "meta_and_others", samples + member(b"b.txt", b"4"))
    put("wds_resealed", "extension_twice", member(b"a.txt", b"1") + member(b"a.TXT", b"2"))
    put("wds_resealed", "key_again", member(b"a.txt", b"1") + member(b"b.txt", b"2") + member(b"a.jpg", b"3"))


# ArrayRecord: chunks as the target array_record_chunks takes them.

MAGIC = 0x71930E704FDAE05E
BLOCK, CHUNK, BLOCK_HEADER = 64 << 10, 40, 24


def records(*contents):
    sizes = b"".join(varint(len(one)) for one in contents)
    return b"\0" + varint(len(sizes)) + sizes + b"".join(contents), len(contents), sum(map(len, contents))


def chunk(kind, data, count=0, decoded=0):
    return kind + struct.pack("<HHH", count, decoded, len(data)) + data


def array_record(gap=0, kind=b"r", entry_offset=None, count=2, last=b"r"):
    data = records(b"hello", b"you")
    begin = BLOCK_HEADER + gap
    footer_at = begin + CHUNK + len(data[0])
    if begin < BLOCK < footer_at:
        footer_at += BLOCK_HEADER
    offset = begin if entry_offset is None else entry_offset
    summary = field(1, field(1, 1) + field(2, 1) + field(3, count) + field(4, b"options"))
    footer = records(summary, field(1, offset) + field(2, 8) + field(3, count))
    end = records(field(1, footer_at) + field(2, MAGIC))
    return struct.pack("<H", gap) + chunk(kind, *data) + chunk(b"r", *footer) + chunk(last, *end)


def write_array_record():
    files = {
        "whole": array_record(),
        "over_the_edge_of_a_block": array_record(gap=BLOCK - BLOCK_HEADER - 20),
        "transposed": array_record(kind=b"t"),
        "other_type": array_record(kind=b"p"),
        "other_count": array_record(count=3),
        "offset_outside": array_record(entry_offset=1 << 30),
        "signature_at_the_end": array_record(last=b"s"),
        "no_postscript": array_record(last=b"p"),
        "empty": struct.pack("<H", 0),
    }
    for name, content in files.items():
        put("array_record_chunks", name, content)


# TensorFlow's Examples: every kind of feature, packed or not.

def write_example():
    features = {
        b"image": field(1, field(1, b"one") + field(1, b"two")),
        b"label": field(3, field(1, 7) + field(1, varint(8) + varint(9))),
        b"image/encoded": field(2, field(1, struct.pack("<f", 0.5))),
        b"image/class/label": b"",
        b"other": field(9, 1) + b"\x4d" + b"abcd" + b"\x49" + b"12345678",
    }
    entries = b"".join(field(1, field(1, key) + field(2, feature) + field(3, 5)) for key, feature in features.items())
    put("example", "every_kind", field(1, entries) + field(2, b"unknown"))
    put("example", "fixed_fields_around", b"\x19" + b"12345678" + b"\x1d" + b"1234" + field(4, 300) + field(1, entries))
    put("example", "group", b"\x0b\x0c")
    put("example", "empty", b"")


# TensorBoard's event files.

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def framed(record):
    def masked(data):
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def write_events():
    def event(step, content):
        return b"\x09" + struct.pack("<d", 1e9) + (field(2, step) if step else b"") + content
    scalars = field(5, field(1, field(1, b"loss") + b"\x15" + struct.pack("<f", 0.5)))
    text = field(5, field(1, field(1, b"note") + field(8, field(1, 7) + field(8, b"words"))))
    first = [event(0, field(3, b"brain.Event:2")), event(0, field(7, field(1, 1)))]
    put("event", "version", first[0])
    put("event", "start", first[1])
    put("event", "scalars", event(300, scalars))
    put("event", "text", event(3, text) + field(15, b"unknown"))
    run = first + [event(step, scalars) for step in (1, 2, 9)] + [event(4, text)]
    put("events", "run", b"".join(map(framed, run)))
    put("events", "cut_off", b"".join(map(framed, run))[:-3])
    put("events", "no_event", b"".join(map(framed, run[:3])) + framed(b"\x0a"))
    put("events", "another_start", b"".join(map(framed, [run[0], event(7, field(7, field(1, 1))), run[2]])))
    put("events", "empty", b"")


# Thrift's compact protocol, as in a Parquet file's footer.

def write_parquet():
    def element(children):
        return b"\x15\x02" + b"\x48\x01n" + (b"\x15" + varint(2 * children) if children else b"") + b"\0"
    schema = b"\x29\x3c" + element(2) + element(0) + element(0)
    binary, i16, double = b"\x18\x02ab", b"\x14\x02", b"\x17" + bytes(8)
    other = b"\x11" + b"\x12" + b"\x13\x05" + i16 + b"\x15\x02" + b"\x16\x02" + double + binary
    other += b"\x19\x25\x02\x04" + b"\x1a\x21\x01\x02" + b"\x1b\x01\x58\x02\x01a" + b"\x1b\0" + b"\x1c\x15\x02\0"
    put("parquet_footer", "every_type", b"\x15\x02" + schema + other + b"\0")
    put("parquet_footer", "map_of_maps", b"\x1b\x01\xbb\x01\x33\x01\x02\x01\x33\x01\x02\0")
    put("parquet_footer", "long_list", b"\x19\xf3\x10" + bytes(16) + b"\0")
    put("parquet_footer", "long_field_number", b"\x05\x80\x01\x02\0")
    put("parquet_footer", "unknown_type", b"\x1f\0")
    put("parquet_footer", "file", b"PAR1" + schema + b"\0" + struct.pack("<I", len(schema) + 1) + b"PAR1")
    put("parquet_footer", "footer_too_long", b"PAR1\0" + struct.pack("<I", 99) + b"PAR1")


# NumPy's files.

def npy(text, data, version=1):
    text = text.encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def zipped(files, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def write_npz():
    fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"
    plain = "{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }"
    put("npz", "fortran.npy", npy(fortran, bytes(range(24))))
    put("npz", "version_2.npy", npy(plain, b"abcd", version=2))
    put("npz", "unknown_elements.npy", npy(plain.replace("|V2", "<c8"), b"abcd"))
    put("npz", "shape_too_large.npy", npy(plain.replace("2,", "9223372036854775807, 9223372036854775807"), b""))
    put("npz", "key_unknown.npy", npy(plain.replace("shape", "form"), b"abcd"))
    put("npz", "neither_true_nor_false.npy", npy(plain.replace("False", "None"), b"abcd"))
    put("npz", "header_ends_early.npy", npy(plain, b"")[:40])
    array = npy(plain, b"abcd")
    put("npz", "two.npz", zipped([("params/a.npy", array), ("params/b/c.npy", npy(fortran, bytes(24))), ("readme", b"")]))
    put("npz", "packed_other.npz", zipped([("a.npy", array)], zipfile.ZIP_DEFLATED))
    put("npz", "wrong_checksum.npz", zipped([("a.npy", array)]).replace(b"abcd", b"abce"))


# Pickles: each opcode that is read, and each reason to refuse one.

def write_pickles():
    start, text, storage = b"\x80\x04\x95" + bytes(8), b"\x8c\x01a", b"\x8c\x07storage\x85Q"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n" + b"(" + storage + b"K\x00K\x02\x85K\x01\x85\x89}tR"
    numbers = b"(K\x01M\x02\x01J\xfe\xff\xff\xff\x8a\x00\x8a\x01\xff\x8a\x09" + bytes(9) + b"G?\xf0" + bytes(6) + b"N\x88\x89t"
    put("pickle", "numbers", start + numbers + b".")
    put("pickle", "texts", start + b"(X\x01\0\0\0aT\x01\0\0\0bB\x01\0\0\0c\x8c\x01dU\x01eC\x01ft.")
    put("pickle", "containers", start + b"}(" + text + b"](" + b"K\x01K\x02eK\x03a" + text + b")K\x01\x85\x86N\x87u" + text + b"Ns.")
    put("pickle", "memo", start + b"]q\x00\x94r\x07\0\0\0h\x00ah\x01aj\x07\0\0\0a.")
    put("pickle", "tensor", start + b"}" + b"\x8c\x0astate_dict}" + text + tensor + b"ss.")
    put("pickle", "parameter", start + b"}" + text + b"ctorch._utils\n_rebuild_parameter\n(" + tensor + b"\x88}tRs.")
    put("pickle", "ordered", start + b"ccollections\nOrderedDict\n](" + text + b"K\x01\x86e\x85R}" + text + b"Nsb.")
    put("pickle", "empty_dictionary", start + b"ccollections\nOrderedDict\n)R.")
    put("pickle", "other", start + b"\x8c\x08argparse\x8c\x09Namespace\x93)\x81(K\x01e(" + text + b"Nu}b.")
    refused = {
        "ends_early": b"K", "line_ends_early": b"ctorch", "value_missing": b"a", "value_below_mark": b"K\x01(a", "mark_missing": b"]e",
        "appends_to_number": b"K\x01K\x02a", "sets_of_number": b"K\x01K\x02K\x03s", "key_without_value": b"}(K\x01u",
        "name": b"cos\nsystem\n", "name_of_number": b"K\x01K\x01\x93", "call_of_number": b"K\x01)R", "call_of_class": b"ctorch\nFloatStorage\n)R",
        "no_pairs": b"ccollections\nOrderedDict\n]K\x01a\x85R", "no_tensor": b"ctorch._utils\n_rebuild_tensor_v2\n)R",
        "no_parameter": b"ctorch._utils\n_rebuild_parameter\n)R", "state_of_number": b"K\x01}b", "storage_of_number": b"K\x01Q",
        "not_kept": b"h\x05", "opcode": b"I1\n",
    }
    for name, content in refused.items():
        put("pickle", "refused_" + name, start + content)
    write_torch(start)


def write_torch(start):
    def put_torch(name, content, *more):
        put("torch", name, zipped([("archive/data.pkl", start + content + b"."), *more]))

    def tensor(storage, offset=0, size=2, stride=1):
        numbers = b"".join(b"J" + struct.pack("<i", number) for number in (offset, size)) + b"\x85J" + struct.pack("<i", stride)
        return b"}\x8c\x01actorch._utils\n_rebuild_tensor_v2\n(" + storage + numbers + b"\x85\x89}tRs"

    def storage(kind=b"FloatStorage", key=b"0"):
        return b"(\x8c\x07storagectorch\n" + kind + b"\n\x8c\x01" + key + b"\x8c\x03cpuK\x02tQ"

    elements = ("archive/data/0", bytes(8))
    put_torch("big_endian", b"}", ("archive/byteorder", b"big"))
    put_torch("no_dictionary", b"K\x01")
    put_torch("no_dictionary_of_weights", b"}\x8c\x05modelK\x01s")
    put_torch("no_tensors", b"}")
    put_torch("averaged", b"}\x8c\x0estate_dict_ema" + tensor(storage()) + b"s", elements, ("archive/byteorder", b"little"))
    put_torch("no_storage", tensor(b"\x8c\x07storage\x85Q"), elements)
    put_torch("no_elements", tensor(storage(key=b"1")), elements)
    put_torch("unknown_type", tensor(storage().replace(b"ctorch\nFloatStorage\n", b"ctorch\nfloat32\n")), elements)
    put_torch("beyond_the_storage", tensor(storage(), offset=1), elements)
    put_torch("before_the_storage", tensor(storage(), offset=-1), elements)
    put_torch("shared", tensor(storage(), size=2 ** 30, stride=0), elements)
    put("torch", "packed", zipped([("archive/data.pkl", start + b"}."), ("archive/data/0", bytes(1 << 22))], zipfile.ZIP_DEFLATED))


# config.json of Hugging Face's and, behind a zero byte, preprocessor_config.json: each processor, and each reason to refuse one.

def write_model_configs():
    small = {"model_type": "vit", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
             "image_size": 12, "patch_size": 4, "num_labels": 3}
    processors = {
        "vit_old": {"feature_extractor_type": "ViTFeatureExtractor", "size": 12},
        "deit": {"image_processor_type": "DeiTImageProcessorFast", "size": {"height": 16, "width": 16},
                 "crop_size": {"height": 12, "width": 12}, "do_normalize": False},
        "deit_edge": {"image_processor_type": "DeiTImageProcessor", "size": {"shortest_edge": 16}, "crop_size": 12},
        "convnext": {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 224}, "crop_pct": 0.875},
        "convnext_large": {"image_processor_type": "ConvNextFeatureExtractor", "size": 384},
        "bad_processor": {"image_processor_type": "CLIPImageProcessor"},
        "bad_do_resize": {"do_resize": False},
        "bad_rescale": {"rescale_factor": 1},
        "bad_size": {"size": {"height": 0, "width": 12}},
        "bad_edge": {"size": {"shortest_edge": 12, "longest_edge": 13}},
        "bad_edge_without_crop": {"size": {"shortest_edge": 12}},
        "bad_crop": {"image_processor_type": "DeiTImageProcessor", "size": 12, "crop_size": 16},
        "bad_crop_share": {"image_processor_type": "DeiTImageProcessor", "size": {"height": 16, "width": 32}, "crop_size": 12},
        "bad_convnext_crop": {"image_processor_type": "ConvNextImageProcessor", "do_center_crop": True},
        "bad_convnext_size": {"image_processor_type": "ConvNextImageProcessor", "size": 0},
        "bad_convnext_share": {"image_processor_type": "ConvNextImageProcessor", "crop_pct": 2},
        "bad_resample": {"resample": 9},
    }
    for name, processor in processors.items():
        put("model_config", "hugging_face_" + name, json.dumps(small).encode() + b"\0" + json.dumps(processor).encode())
    timm = {"architecture": "vit_tiny_patch16_224", "num_classes": 1, "model_args": {"img_size": 16, "patch_size": 4, "embed_dim": 24,
            "depth": 1, "num_heads": 2}, "pretrained_cfg": {"input_size": [3, 16, 16]}}
    configs = {
        "hugging_face_other_model": {**small, "model_type": "swin"},
        "hugging_face_activation": {**small, "hidden_act": "relu"},
        "hugging_face_tanh": {**small, "hidden_act": "gelu_new"},
        "hugging_face_labels": {**small, "id2label": {"0": "a", "2": "b"}},
        "hugging_face_patch": {**small, "patch_size": 5},
        "timm_unknown": {**timm, "architecture": "vit_tiny_patch16_225"},
        "timm_crop_mode": {**timm, "pretrained_cfg": {"input_size": [3, 16, 16], "crop_mode": "border"}},
        "timm_squash": {**timm, "pretrained_cfg": {"input_size": [3, 16, 16], "crop_mode": "squash", "crop_pct": 0.9}},
        "timm_old": {**timm["pretrained_cfg"], "architecture": "resnet18", "num_classes": 2, "label_names": ["a", "b"]},
        "timm_args": {**timm, "model_args": {f"a{i}": 0 for i in range(1001)}},
    }
    for name, config in configs.items():
        put("model_config", name, json.dumps(config).encode())


# Serialised programs for several CPU devices (src/pjrt/program/collective_order.h), which hold nothing but the order of operations.

def write_collective_order():
    def place(buffer):
        return field(1, field(2, 11)) + field(2, field(2, 4) + field(3, buffer) + field(4, 11))

    def thunk(kind, number, content):
        return field(1, field(1, kind) + field(2, field(1, kind)) + field(number, content))

    def collective(*buffers):
        return thunk(b"collective", 18, field(2, field(1, place(9)) + b"".join(field(2, place(b)) for b in buffers)))

    def users(*indices):
        return field(2, field(1, b"".join(varint(i) for i in indices)) + field(2, field(1, 2)))

    def loop(body):
        return thunk(b"while", 10, field(1, thunk(b"kernel", 11, b"")) + field(2, body) + field(4, field(3, 5)))

    def program(sequence):
        return field(1, field(1, b"module") + field(5, 2) + field(6, sequence)) + field(2, b"options")

    body = collective(1) + users(0)
    put("collective_order", "no_collective", program(thunk(b"kernel", 11, b"") + loop(b"")))
    put("collective_order", "side_by_side", program(collective(1, 2) + collective(3) + users(0, 1)))
    put("collective_order", "loop_between", program(collective(2) + loop(body) + collective(3) + users(0, 1, 2)))
    put("collective_order", "loops_in_loops", program(loop(loop(body) + collective(2) + users(0, 1)) + loop(body) + users(0, 1)))
    put("collective_order", "call", program(thunk(b"call", 3, field(1, body)) + collective(2) + users(0, 1)))
    put("collective_order", "conditional", program(
        collective(2) + thunk(b"conditional", 4, field(1, b"") + field(1, body) + field(2, field(3, 5))) + users(0, 1)))
    put("collective_order", "users_of_no_thunk", program(collective(2) + loop(body) + users(200)))
    put("collective_order", "no_destination", program(collective() + users(0)))
    put("collective_order", "unknown_kind", program(thunk(b"new", 22, b"") + collective(1)))
    put("collective_order", "no_sequence", field(1, field(1, b"module")))


# Pictures of tests/image/images that take another way through a decoder.

def copy_images():
    names = ["420.jpg", "422.jpg", "cmyk_adobe.jpg", "ycck_adobe.jpg", "progressive.jpg", "restart.jpg", "truncated.jpg",
             "truncated_progressive.jpg", "grey_16bit.png", "grey_2bit.png", "palette_4bit.png", "rgb_key_colour.png", "gamma.png",
             "damaged.png", "truncated.png", "truncated.webp", "lossless_alpha.webp", "text.jpg"]
    for name in names:
        shutil.copy(CORPUS.parents[1] / "image" / "images" / name, CORPUS / "image" / name)


if __name__ == "__main__":
    write_tar()
    write_array_record()
    write_example()
    write_events()
    write_parquet()
    write_npz()
    write_pickles()
    write_model_configs()
    write_collective_order()
    copy_images()
