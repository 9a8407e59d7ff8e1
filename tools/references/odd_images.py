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

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/image/images"
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


def main():
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    for folder in "expected", "expected/upright", "expected/filled":
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    turned()
    jpegs()
    pngs()
    webps()
    refuse("empty.jpg", b"")
    refuse("text.jpg", b"This is not an image.\n")


if __name__ == "__main__":
    main()
