#!/bin/sh
# Makes the reference files under tests/references with the pinned timm and torch.
#   tools/references/run.sh                 every script
#   tools/references/run.sh vit adamw       only these
# Python 3.11, 3.12 or 3.13 on x86-64 Linux (PYTHON=... chooses one). The first run downloads about
# 2.5 GB into .deps/references of the checkout (4.1 GB installed); the scripts then take half a minute.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$(cd "$here/../.." && pwd)/.deps/references

if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  # --no-deps: requirements.txt is complete; what torch declares but does not load is left out of it.
  "$venv/bin/pip" install --quiet --no-deps --only-binary :all: --require-hashes -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/requirements.txt"
fi

export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
[ $# -gt 0 ] || set -- vit adamw pillow_resize timm_local_dir positions timm_vit_table mixup
for script; do
  "$venv/bin/python" "$here/$script.py"
done
