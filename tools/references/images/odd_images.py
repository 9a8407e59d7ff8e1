"""Images that trip readers, with the pixels Pillow decodes: tests/image/images/.

Run: tools/references/run.sh odd_images, or `python odd_images.py` in its environment.

For each <name> here, expected/<name>.png is Image.convert("RGB") as an 8-bit RGB PNG. A file without one has to be refused.
expected/upright/<name>.png is the same after ImageOps.exif_transpose, expected/filled/<name>.png under LOAD_TRUNCATED_IMAGES.
"""
import io
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image, ImageFile, ImageOps

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests/image/images"
W, H = 67, 45


def picture(width=W, height=H, channels=3):
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 255 // width, y * 255 // height, (x * y // 5) % 256, (x + 3 * y) % 256]
    planes[1] = np.where((x // 11 + y // 9) % 3 == 0, 230, planes[1])
    return np.stack(planes[:channels], -1).astype(np.uint8)


def encode(image, fmt, **options):
    out = io.BytesIO()
    image.save(out, fmt, **options)
    return out.getvalue()


def write(name, data, decode=None):
    """`decode` are the bytes to make the reference from, when they are not the file's own."""
    (FOLDER / name).write_bytes(data)
    image = Image.open(io.BytesIO(decode or data)).convert("RGB")
    image.save(FOLDER / "expected" / (name + ".png"), optimize=True)


def refuse(name, data):
    (FOLDER / name).write_bytes(data)


def write_upright(name, data):
    write(name, data)
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    image.save(FOLDER / "expected/upright" / (name + ".png"), optimize=True)


def refuse_or_fill(name, data):
    refuse(name, data)
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    image = Image.open(io.BytesIO(data)).convert("RGB")
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    image.save(FOLDER / "expected/filled" / (name + ".png"), optimize=True)


def turned():
    small = Image.fromarray(picture(23, 14))
    for orientation in range(1, 10):
        exif = Image.Exif()
        exif.endian = "<>"[orientation % 2]
        exif[0x0112] = orientation
        write_upright(f"exif_{orientation}.jpg", encode(small, "JPEG", quality=90, subsampling=0, exif=exif))
    exif = Image.Exif()
    exif[0x0112] = 5
    write_upright("exif_5.png", encode(small, "PNG", exif=exif))
    write_upright("exif_5.webp", encode(small, "WEBP", lossless=True, exif=exif))
    write_upright("no_exif.jpg", encode(small, "JPEG", quality=90))


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, rows, extra=b""):
    """A PNG of any depth and colour type from raw scanlines."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + extra + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")


def png16(channels, colour):
    rng = np.random.default_rng(channels)
    values = rng.integers(0, 65536, (9, 13, channels), dtype=np.uint16)
    values[0] = rng.integers(0, 400, (13, channels))
    return png(13, 9, 16, colour, [row.astype(">u2").tobytes() for row in values])


def jpegs():
    rgb = Image.fromarray(picture())
    for name, options in {
        "444": dict(subsampling=0), "422": dict(subsampling=1), "420": dict(subsampling=2),
        "progressive": dict(subsampling=2, progressive=True), "restart": dict(subsampling=2, restart_marker_rows=1),
        "optimised": dict(subsampling=2, optimize=True),
    }.items():
        write(f"{name}.jpg", encode(rgb, "JPEG", quality=88, **options))
    write("grey.jpg", encode(rgb.convert("L"), "JPEG", quality=88))
    exif = Image.Exif()
    exif[0x0112] = 6
    write("rotated_exif.jpg", encode(rgb, "JPEG", quality=80, exif=exif))
    cmyk = encode(Image.fromarray(picture(channels=4), "CMYK"), "JPEG", quality=88)
    write("cmyk_adobe.jpg", cmyk)
    at = cmyk.index(b"Adobe")  # APP14: version (2), flags0 (2), flags1 (2), transform (1)
    write("ycck_adobe.jpg", cmyk[:at + 11] + b"\x02" + cmyk[at + 12:])
    plain = encode(rgb, "JPEG", quality=88)
    write("no_end_marker.jpg", plain[:-2], decode=plain)  # Pillow reads such a file or not, depending on its last bits
    refuse_or_fill("truncated.jpg", plain[:len(plain) // 2])
    progressive = encode(rgb, "JPEG", quality=88, progressive=True)
    refuse_or_fill("truncated_progressive.jpg", progressive[:len(progressive) // 2])
    write("jpeg_named_png.png", plain)


def pngs():
    rgb = Image.fromarray(picture())
    write("rgb.png", encode(rgb, "PNG"))
    write("rgba.png", encode(Image.fromarray(picture(channels=4), "RGBA"), "PNG"))
    write("grey.png", encode(rgb.convert("L"), "PNG"))
    write("grey_alpha.png", encode(Image.fromarray(picture(channels=4), "RGBA").convert("LA"), "PNG"))
    write("one_bit.png", encode(rgb.convert("1"), "PNG"))
    palette = rgb.quantize(30)
    write("palette.png", encode(palette, "PNG"))
    write("palette_alpha.png", encode(palette, "PNG", transparency=bytes(range(0, 240, 8))))
    write("palette_4bit.png", encode(rgb.quantize(11), "PNG", bits=4))
    for depth in (2, 4):
        rows = np.random.default_rng(depth).integers(0, 256, (7, 19 * depth // 8 + 1), dtype=np.uint8)
        write(f"grey_{depth}bit.png", png(19, 7, depth, 0, [row.tobytes() for row in rows]))
    write("grey_16bit.png", png16(1, 0))
    write("rgb_16bit.png", png16(3, 2))
    write("grey_alpha_16bit.png", png16(2, 4))
    write("rgba_16bit.png", png16(4, 6))
    keyed = png_chunk(b"tRNS", struct.pack(">HHH", 10, 20, 30))
    write("rgb_key_colour.png", png(5, 4, 8, 2, [bytes([10, 20, 30] * 5)] * 4, keyed))
    write("gamma.png", png(5, 4, 8, 2, [bytes(range(15))] * 4, png_chunk(b"gAMA", struct.pack(">I", 100000))))
    data = encode(rgb, "PNG")
    refuse("truncated.png", data[:len(data) // 2])
    bad = bytearray(data)
    bad[len(bad) // 2] ^= 0x55
    refuse("damaged.png", bytes(bad))  # Pillow does not look at the checksums


def webps():
    rgb, rgba = Image.fromarray(picture()), Image.fromarray(picture(channels=4), "RGBA")
    write("lossy.webp", encode(rgb, "WEBP", quality=80))
    write("lossless.webp", encode(rgb, "WEBP", lossless=True))
    write("lossy_alpha.webp", encode(rgba, "WEBP", quality=80))
    write("lossless_alpha.webp", encode(rgba, "WEBP", lossless=True, exact=True))
    data = encode(rgb, "WEBP", quality=80)
    refuse("truncated.webp", data[:len(data) // 2])


def bmp(width, height, bits, rows, compression=0, colours=(), masks=b"", header=40):
    """A BMP of any depth from packed rows, the lowest first; a negative height has the highest first."""
    palette = b"".join(struct.pack("<I", colour) if header > 12 else struct.pack("<I", colour)[:3] for colour in colours)
    data = rows if isinstance(rows, bytes) else b"".join(row + bytes(-len(row) % 4) for row in rows)
    if header == 12:
        info = struct.pack("<IHHHH", header, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(data), 2835, 2835, len(colours), 0)
        info = struct.pack("<I", header) + info[4:] + (masks + bytes(header))[:header - 40]
        masks = masks if header == 40 else b""
    start = 14 + len(info) + len(masks) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + info + masks + palette + data


def bmps():
    rng = np.random.default_rng(3)
    rgb = Image.fromarray(picture())
    write("rgb.bmp", encode(rgb, "BMP"))
    write("grey.bmp", encode(rgb.convert("L"), "BMP"))
    write("one_bit.bmp", encode(rgb.convert("1"), "BMP"))
    write("palette.bmp", encode(rgb.quantize(30), "BMP"))
    write("rgba.bmp", encode(Image.fromarray(picture(channels=4), "RGBA"), "BMP"))
    colours = [int(c) for c in rng.integers(0, 1 << 24, 16)]
    packed = [row.tobytes() for row in rng.integers(0, 256, (6, 7), dtype=np.uint8)]
    write("4bit.bmp", bmp(13, 6, 4, packed, colours=colours))
    write("few_colours.bmp", bmp(7, 6, 8, [bytes(b % 12 for b in row) for row in packed], colours=colours[:9]))
    write("os2.bmp", bmp(7, 6, 8, [bytes(b % 16 for b in row) for row in packed], colours=colours + [0] * 240, header=12))
    write("from_top.bmp", bmp(13, -6, 4, packed, colours=colours))
    sixteen = [row.tobytes() for row in rng.integers(0, 65536, (5, 9), dtype=np.uint16)]
    write("555.bmp", bmp(9, 5, 16, sixteen))
    write("565.bmp", bmp(9, 5, 16, sixteen, 3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F)))
    wide = [row.tobytes() for row in rng.integers(0, 1 << 32, (5, 9), dtype=np.uint32)]
    write("32bit.bmp", bmp(9, 5, 32, wide))
    for name, masks in {"bgra": (0xFF0000, 0xFF00, 0xFF, 0xFF000000), "rgba_masks": (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
                        "xbgr": (0xFF000000, 0xFF0000, 0xFF00, 0), "bgar": (0xFF000000, 0xFF00, 0xFF, 0xFF0000)}.items():
        write(f"{name}.bmp", bmp(9, 5, 32, wide, 3, masks=struct.pack("<IIII", *masks), header=124))
    # A run, pixels as they are, a run over the end of the row, an early end of a row, the end.
    rle8 = bytes([5, 3, 0, 3, 1, 2, 4, 0, 1, 9, 0, 0, 9, 2, 0, 0, 3, 1, 0, 0, 0, 4, 7, 8, 9, 10, 5, 15, 0, 0, 9, 6, 0, 1])
    write("rle8.bmp", bmp(9, 5, 8, rle8, 1, colours=colours))
    rle4 = bytes([5, 0x3A, 0, 3, 0x12, 0x40, 1, 0x90, 0, 0, 9, 0x2B, 0, 0, 3, 0x10, 0, 0, 0, 6, 0x78, 0x9A, 0xBC, 0, 3, 0xF0, 0, 0, 9, 0x6D, 0, 1])
    write("rle4.bmp", bmp(9, 5, 4, rle4, 2, colours=colours))
    data = encode(rgb, "BMP")
    refuse("truncated.bmp", data[:len(data) // 2])
    refuse("truncated_rle8.bmp", bmp(9, 5, 8, rle8[:20], 1, colours=colours))
    refuse("12bit.bmp", bmp(9, 5, 12, sixteen))
    refuse("odd_masks.bmp", bmp(9, 5, 16, sixteen, 3, masks=struct.pack("<III", 0x7E0, 0xF800, 0x1F)))


def gifs():
    rgb = Image.fromarray(picture())
    palette = rgb.quantize(200)
    write("palette.gif", encode(palette, "GIF"))
    write("plain.gif", encode(palette, "GIF", interlace=0))
    write("grey.gif", encode(rgb.convert("L"), "GIF"))
    write("transparent.gif", encode(rgb.quantize(30), "GIF", transparency=7))
    frames = [rgb.quantize(20), rgb.transpose(Image.Transpose.FLIP_LEFT_RIGHT).quantize(20)]
    write("animated.gif", encode(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50, loop=0, comment=b"two"))
    data = bytearray(encode(rgb.quantize(8), "GIF", interlace=0))
    at = data.index(b"\x2c", 13 + 3 * 8)
    # The frame in the middle of a larger picture; beyond its edge; without any table of colours; a table shorter than the indices.
    write("inner_frame.gif", bytes(data[:6]) + struct.pack("<HH", 90, 60) + bytes(data[10:at + 1]) + struct.pack("<HH", 11, 7) + bytes(data[at + 5:]))
    write("outer_frame.gif", bytes(data[:6]) + struct.pack("<HH", 20, 50) + bytes(data[10:at + 1]) + struct.pack("<HH", 11, 7) + bytes(data[at + 5:]))
    write("no_colours.gif", bytes(data[:10]) + b"\x00" + bytes(data[11:13]) + bytes(data[13 + 24:]))
    write("few_colours.gif", bytes(data[:10]) + b"\x80" + bytes(data[11:13 + 6]) + bytes(data[13 + 24:]))
    refuse("truncated.gif", bytes(data[:len(data) * 2 // 3]))
    refuse("no_frame.gif", bytes(data[:13 + 24]) + b";")
    bad = bytearray(data)
    bad[at + 10] = 13  # bits of a code
    refuse("damaged.gif", bytes(bad))


def tiff(width, height, rows, tags, order="<"):
    """An uncompressed TIFF in one strip of which any tag may be set: {tag: number, or shorts}."""
    data = b"".join(rows)
    values = {256: width, 257: height, 259: 1, 277: 1, 278: height, 279: len(data)} | tags
    values[273] = 0  # where the strip begins: set below
    entries, behind = b"", b""
    count = len(values)
    end = 8 + 2 + 12 * count + 4
    start = end + sum(2 * len(v) for v in values.values() if isinstance(v, tuple) and len(v) > 2)
    values[273] = start
    for tag in sorted(values):
        value = values[tag]
        if not isinstance(value, tuple):
            entries += struct.pack(order + "HHII", tag, 4, 1, value) if tag in (256, 257, 273, 278, 279) else \
                struct.pack(order + "HHIHH", tag, 3, 1, value, 0)
        elif len(value) <= 2:
            entries += struct.pack(order + "HHI", tag, 3, len(value)) + struct.pack(order + f"{len(value)}H", *value).ljust(4, b"\0")
        else:
            entries += struct.pack(order + "HHII", tag, 3, len(value), end + len(behind))
            behind += struct.pack(order + f"{len(value)}H", *value)
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    return head + struct.pack(order + "H", count) + entries + bytes(4) + behind + data


def tiffs():
    rng = np.random.default_rng(5)
    rgb, rgba = Image.fromarray(picture()), Image.fromarray(picture(channels=4), "RGBA")
    write("rgb.tif", encode(rgb, "TIFF"))
    for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "zstd", "lzma"):
        write(f"{name}.tif", encode(rgb, "TIFF", compression=name))
    write("jpeg.tif", encode(rgb, "TIFF", compression="jpeg", quality=90))
    write("grey.tif", encode(rgb.convert("L"), "TIFF", compression="tiff_lzw"))
    write("one_bit.tif", encode(rgb.convert("1"), "TIFF", compression="group4"))
    write("palette.tif", encode(rgb.quantize(30), "TIFF"))
    write("rgba.tif", encode(rgba, "TIFF"))
    write("grey_alpha.tif", encode(rgba.convert("LA"), "TIFF"))
    write("cmyk.tif", encode(Image.fromarray(picture(channels=4), "CMYK"), "TIFF"))
    write("two_pages.tif", encode(rgb, "TIFF", save_all=True, append_images=[rgb.convert("L")]))
    grey16 = rng.integers(0, 65536, (7, 11), dtype=np.uint16)
    grey16[0] = rng.integers(0, 400, 11)
    for order in "<>":
        name = "little" if order == "<" else "big"
        big = [row.astype(order + "u2").tobytes() for row in grey16]
        write(f"grey_16bit_{name}.tif", tiff(11, 7, big, {258: 16, 262: 1}, order))
        three = [row.astype(order + "u2").tobytes() for row in rng.integers(0, 65536, (7, 33))]
        write(f"rgb_16bit_{name}.tif", tiff(11, 7, three, {258: (16, 16, 16), 262: 2, 277: 3}, order))
    for bits in (1, 2, 4, 8):
        rows = [row.tobytes() for row in rng.integers(0, 256, (7, (19 * bits + 7) // 8), dtype=np.uint8)]
        write(f"grey_{bits}bit.tif", tiff(19, 7, rows, {258: bits, 262: 1}))
        write(f"white_is_zero_{bits}bit.tif", tiff(19, 7, rows, {258: bits, 262: 0}))
        colours = tuple(int(c) for c in rng.integers(0, 65536, 3 << bits))
        write(f"palette_{bits}bit.tif", tiff(19, 7, rows, {258: bits, 262: 3, 320: colours}))
    write("bits_reversed.tif", tiff(19, 7, [bytes(range(y, y + 19)) for y in range(7)], {258: 8, 262: 1, 266: 2}))
    four = [row.tobytes() for row in rng.integers(0, 256, (7, 44), dtype=np.uint8)]
    write("multiplied.tif", tiff(11, 7, four, {258: (8,) * 4, 262: 2, 277: 4, 338: 1}))
    write("unnamed_alpha.tif", tiff(11, 7, four, {258: (8,) * 4, 262: 2, 277: 4, 338: 0}))
    for orientation in range(2, 9):
        write(f"orientation_{orientation}.tif", encode(Image.fromarray(picture(23, 14)), "TIFF", tiffinfo={274: orientation}))
    planes = picture(11, 7)
    rows = [planes[..., c].tobytes() for c in range(3)]
    strips = tiff(11, 7, rows, {258: (8,) * 3, 262: 2, 277: 3, 284: 2})
    separate = Image.open(io.BytesIO(tiff(11, 7, [planes.tobytes()], {258: (8,) * 3, 262: 2, 277: 3}))).convert("RGB")
    (FOLDER / "planes.tif").write_bytes(with_strips(strips, 3, 77))
    separate.save(FOLDER / "expected/planes.tif.png", optimize=True)
    data = encode(rgb, "TIFF", compression="tiff_lzw")
    refuse("truncated.tif", data[:len(data) // 2])
    refuse("float.tif", encode(Image.fromarray(rng.random((5, 6), dtype=np.float32)), "TIFF"))
    refuse("lab.tif", encode(Image.fromarray(picture(), "LAB"), "TIFF"))
    refuse("no_size.tif", b"II*\0" + struct.pack("<IH", 8, 0) + bytes(4))


def with_strips(data, count, length):
    """The one strip of a file of tiff() as so many of this length, one behind another."""
    entries = struct.unpack("<H", data[8:10])[0]
    out = bytearray(data)
    for i in range(entries):
        at = 10 + 12 * i
        tag = struct.unpack("<H", data[at:at + 2])[0]
        if tag in (273, 279):
            first = struct.unpack("<I", data[at + 8:at + 12])[0]
            where = len(out)
            out[at + 4:at + 12] = struct.pack("<II", count, where)
            out += b"".join(struct.pack("<I", first + k * length if tag == 273 else length) for k in range(count))
    return bytes(out)


def main():
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    for folder in "expected", "expected/upright", "expected/filled":
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    turned()
    jpegs()
    pngs()
    webps()
    bmps()
    gifs()
    tiffs()
    refuse("empty.jpg", b"")
    refuse("text.jpg", b"This is not an image.\n")


if __name__ == "__main__":
    main()
