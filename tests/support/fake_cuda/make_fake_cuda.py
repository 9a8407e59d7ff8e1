#!/usr/bin/env python3
"""make_fake_cuda.py XLA_CUDA_PLUGIN.SO DIRECTORY: libraries of CUDA that know no GPU, with which that plugin makes a client of
FAKE_GPUS devices and compiles for them. What matters of each is in its .c file here; every other function whose name is in the
plugin does nothing and says success (NVML: not supported). FAKE_SAY=1 names each of those when it is called. NCCL begins once
the file FAKE_NCCL_AFTER is there, and fails."""

import pathlib
import re
import subprocess
import sys

# The file here, the library's name, its functions' names, and what those return that do nothing.
LIBRARIES = [
    ("cuda.c", "libcuda.so.1", r"cu[A-Z]\w+", 0),
    ("nvml.c", "libnvidia-ml.so.1", r"nvml[A-Z]\w+", 3),
    ("cudart.c", "libcudart.so.13", r"(__)?cuda(?!Error)[A-Z]\w+", 0),
    ("cudnn.c", "libcudnn.so.9", r"cudnn[A-Z]\w+", 0),
    ("nccl_env.c", "libnccl-env.so", r"", 0),
]

REST = """
#include <stdio.h>
#include <stdlib.h>
static int rest(const char* name, int status) {
  if (getenv("FAKE_SAY")) fprintf(stderr, "fake: %s\\n", name);
  return status;
}
"""


def words_of(plugin):
    """All that may be functions' names, of a file of 400 MB: patterns that begin with letters are quick to look for."""
    words = set()
    for pattern in (rb"cu(?:da|dnn)?[A-Z]\w+", rb"nvml[A-Z]\w+"):
        for at in re.finditer(pattern, plugin):
            hidden = plugin[at.start() - 2 : at.start()] == b"__"
            words.add(("__" if hidden else "") + at.group().decode())
    return words


def main():
    here = pathlib.Path(__file__).parent
    words = words_of(pathlib.Path(sys.argv[1]).read_bytes())
    directory = pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for file, name, pattern, status in LIBRARIES:
        text = (here / file).read_text()
        written = set(re.findall(r"^\w.*?[ \*](\w+)\(", text, re.M))
        names = {word for word in words if re.fullmatch(pattern, word)}
        text += REST
        text += "".join(f'int {n}() {{ return rest("{n}", {status}); }}\n' for n in sorted(names - written))
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-x", "c", "-", "-o", directory / name],
                       input=text.encode(), check=True)


main()
