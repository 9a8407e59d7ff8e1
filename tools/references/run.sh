#!/bin/sh
# Makes the reference files under tests/references with the pinned timm, torch and TensorFlow.
#   tools/references/run.sh                 every script
#   tools/references/run.sh vit adamw       only these
# Python 3.11, 3.12 or 3.13 on x86-64 Linux (PYTHON=... chooses one; TensorFlow's wheels are for 3.11). The first run downloads about
# 2.5 GB into .deps/references of the checkout (4.1 GB installed) and, for TensorFlow, 0.3 GB into .deps/references-tensorflow; the
# scripts then take half a minute.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
deps=$(cd "$here/../.." && pwd)/.deps

# environment NAME LIST: .deps/NAME holds the packages of LIST, of which it keeps a copy.
environment() {
  cmp -s "$here/$2" "$deps/$1/$2" && return
  rm -rf "${deps:?}/$1"
  "${PYTHON:-python3}" -m venv "$deps/$1"
  # --no-deps: the list is complete; what its packages declare but do not load is left out of it.
  "$deps/$1/bin/pip" install --quiet --no-deps --only-binary :all: --require-hashes -r "$here/$2"
  cp "$here/$2" "$deps/$1/$2"
}

export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
[ $# -gt 0 ] || set -- vit adamw pillow_resize timm_local_dir positions timm_vit_table mixup augment crop_draws tensorflow_ops tensorflow_crop_draws
for script; do
  case $script in
    tensorflow_*) name=references-tensorflow list=requirements-tensorflow.txt ;;
    *) name=references list=requirements.txt ;;
  esac
  environment "$name" "$list"
  "$deps/$name/bin/python" "$here/$script.py"
done
