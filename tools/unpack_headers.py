"""unpack_headers.py WHEEL FOLDER TO: copies WHEEL's <package>/include/FOLDER/*.h to TO/<package>/FOLDER/."""
import pathlib
import sys
import zipfile

wheel, folder, to = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    names = [n for n in archive.namelist() if f"/include/{folder}/" in n and n.endswith(".h")]
    if not names:
        sys.exit(f"{wheel} has no headers in include/{folder}")
    for name in names:
        target = pathlib.Path(to) / name.replace("/include/", "/", 1)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(archive.read(name))
