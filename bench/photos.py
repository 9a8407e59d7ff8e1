"""Many files of a few photographs."""
import os


def link_photos(photos, folder, names):
    """Makes FOLDER/NAME of each name, links to the JPEG files of `photos`, again and again; nothing where it has none."""
    found = sorted(photos.glob("*.jpg"))
    for i, name in enumerate(names if found else ()):
        link = folder / name
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            os.link(found[i % len(found)], link)
    return folder
