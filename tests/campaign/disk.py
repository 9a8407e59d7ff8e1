"""A disk that may lose its power: what io_shim.cc recorded is done again here, with what is durable kept apart from what is not.

A file's content is durable as far as it was there at its last fsync; a name is durable once its directory was synced. At a power
cut each directory keeps any of its changes since then, and each file any of its writes, a last one torn in blocks of a disk's sector.
"""

import os

SECTOR = 512


def read_records(path):
    """The calls of a record, each a list of byte strings: its name and its arguments."""
    with open(path, "rb") as file:
        text = file.read()
    records, words, at = [], [], 0
    while at < len(text):
        if text[at:at + 1] == b"\n":
            records.append(words)
            words, at = [], at + 1
            continue
        colon = text.find(b":", at)
        if colon < 0:
            break
        size = int(text[at:colon])
        if colon + 1 + size > len(text):
            break  # the recorder was killed while it wrote
        words.append(text[colon + 1:colon + 1 + size])
        at = colon + 1 + size
    return records


class File:
    def __init__(self):
        self.content = bytearray()
        self.durable = bytes()
        self.pending = []  # since the last fsync: ("write", offset, bytes) or ("cut", size)

    def write(self, offset, data):
        if len(self.content) < offset:
            self.content.extend(bytes(offset - len(self.content)))
        self.content[offset:offset + len(data)] = data
        self.pending.append(("write", offset, bytes(data)))

    def cut(self, size):
        if size <= len(self.content):
            del self.content[size:]
        else:
            self.content.extend(bytes(size - len(self.content)))
        self.pending.append(("cut", size, b""))

    def sync(self):
        self.durable = bytes(self.content)
        self.pending = []

    def after_cut(self, rng):
        """One of the contents that a disk may hold."""
        choice = rng.random()
        if choice < 0.25:
            return self.durable
        if choice < 0.5:
            return bytes(self.content)
        content = bytearray(self.durable)
        for kind, where, data in self.pending:
            if rng.random() < 0.4:
                continue
            if kind == "cut":
                if where <= len(content):
                    del content[where:]
                else:
                    content.extend(bytes(where - len(content)))
                continue
            for start in range(0, len(data), SECTOR):
                part = data[start:start + SECTOR]
                if rng.random() < 0.3:
                    part = bytes(len(part))  # allocated, never written
                if len(content) < where + start:
                    content.extend(bytes(where + start - len(content)))
                content[where + start:where + start + len(part)] = part
        return bytes(content)


class Link:
    """A symbolic link: there or not, as a name is."""

    def __init__(self, target):
        self.target = target

    def after_cut(self, rng):
        return self


class Directory:
    def __init__(self):
        self.entries = {}
        self.durable = {}
        self.pending = []  # since the last sync: {name: File, Directory or None}, all of a call's together

    def change(self, names):
        for name, node in names.items():
            if node is None:
                self.entries.pop(name, None)
            else:
                self.entries[name] = node
        self.pending.append(names)

    def sync(self):
        self.durable = dict(self.entries)
        self.pending = []

    def after_cut(self, rng):
        choice = rng.random()
        if choice < 0.25:
            return dict(self.durable)
        if choice < 0.5:
            return dict(self.entries)
        entries = dict(self.durable)
        prefix = rng.random() < 0.5  # as a journal keeps changes, or any of them
        upto = rng.randrange(len(self.pending) + 1)
        for i, names in enumerate(self.pending):
            if (i >= upto) if prefix else (rng.random() < 0.4):
                continue
            for name, node in names.items():
                if node is None:
                    entries.pop(name, None)
                else:
                    entries[name] = node
        return entries


class Disk:
    """Follows the records; `root` is a directory that was there, empty, before the first one."""

    def __init__(self, root):
        self.root_path = os.fsencode(root)
        self.root = Directory()
        self.open_files = {}

    def _parts(self, path):
        assert path.startswith(self.root_path), path
        return [part for part in path[len(self.root_path):].split(b"/") if part not in (b"", b".")]

    def _node(self, parts):
        node = self.root
        for part in parts:
            node = node.entries[part]
        return node

    def _parent(self, path):
        parts = self._parts(path)
        return self._node(parts[:-1]), parts[-1]

    def do(self, record):
        name, words = record[0].decode(), record[1:]
        getattr(self, "_do_" + name)(*words)

    def _do_open(self, number, path, create, cut, directory):
        parts = self._parts(path)
        if not parts or directory:
            self.open_files[number] = self._node(parts)
            return
        parent, name = self._parent(path)
        if name not in parent.entries:
            assert create, path
            parent.change({name: File()})
        file = parent.entries[name]
        if cut and isinstance(file, File) and file.content:
            file.cut(0)
        self.open_files[number] = file

    def _do_write(self, number, offset, data):
        self.open_files[number].write(int(offset), data)

    def _do_ftruncate(self, number, size):
        self.open_files[number].cut(int(size))

    def _do_truncate(self, path, _, size):
        self._node(self._parts(path)).cut(int(size))

    def _do_sync(self, number):
        self.open_files[number].sync()

    def _do_mkdir(self, path, *_):
        parent, name = self._parent(path)
        parent.change({name: Directory()})

    def _do_symlink(self, path, _, target):
        parent, name = self._parent(path)
        parent.change({name: Link(target)})

    def _do_unlink(self, path, *_):
        parent, name = self._parent(path)
        parent.change({name: None})

    def _do_rename(self, source, target, flag):
        here, old = self._parent(source)
        there, new = self._parent(target)
        node, other = here.entries[old], there.entries.get(new)
        if here is there:
            here.change({old: other if flag else None, new: node})
        else:  # two directories: what is lost of one may be kept of the other
            there.change({new: node})
            here.change({old: other if flag else None})

    def after_cut(self, rng):
        """A tree of what a disk may hold now: {name: bytes, a Link or a tree}."""

        def tree(directory):
            return {
                name: tree(node) if isinstance(node, Directory) else node.after_cut(rng)
                for name, node in directory.after_cut(rng).items()
            }

        return tree(self.root)


def write_tree(tree, path):
    path = os.fsencode(path)
    os.mkdir(path)
    for name, value in tree.items():
        child = os.path.join(path, name)
        if isinstance(value, dict):
            write_tree(value, child)
        elif isinstance(value, Link):
            os.symlink(value.target, child)
        else:
            with open(child, "wb") as file:
                file.write(value)
