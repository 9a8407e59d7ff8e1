#!/usr/bin/env bash
# Makes the reference files under tests/references with the pinned timm and torch, those of TensorFlow's image ops, those of
# tests/references/formats with the pinned libraries of data formats, those of tests/references/text with tokenizers, and
# lr_suggestions.json with fastai's functions.
#   tools/references/run.sh                 every script
#   tools/references/run.sh vit adamw       only these
#   tools/references/run.sh packages        none: installs timm, torch and transformers (./dev export-deps)
# Python 3.11, 3.12 or 3.13 on x86-64 Linux (PYTHON=... chooses one; TensorFlow's and data_formats' wheels are for 3.11). The first
# run downloads about 2.5 GB into .deps/references of the checkout (4.1 GB installed), 0.3 GB into .deps/references-tensorflow,
# 0.5 GB into .deps/references-formats (2 GB installed) and 5 MB into .deps/references-text; the scripts then take half a minute.
# timm_commands is made when TIMM and VIT_10B name checkouts of the two programs whose arguments are translated.
# Those that run big_vision's own code (cappa, captions, two_tower, metrics, big_vision_*) are made when BIG_VISION names a checkout of it, at
# commit 0127fb6; 0.2 GB in .deps/references-jax.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
deps=$root/.deps
# shellcheck source=tools/setup/pip.sh
source "$root/tools/setup/pip.sh"
# The scripts of one folder use modules of others.
modules=$here/shared:$here/models:$here/images:$here/training:$here/formats:$here/commands

# need LIST ENVIRONMENT [pip option...]: the environment with what LIST names.
need() {
  list="$here/$1" venv="$deps/$2"
  shift 2
  # Another start may be at it, or what is left of one that was ended.
  mkdir -p "$deps"
  exec 9>"$venv.lock"
  flock 9
  cmp -s "$list" "$venv/requirements.txt" && return
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv --without-pip "$venv"
  # The list is complete; what its packages declare but do not load is left out of it.
  (cd "$root" && link_packages "$venv" --only-binary :all: "$@" -r "$list")
  cp "$list" "$venv/requirements.txt"
}

export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 PYTHONPATH="$modules"
[ $# -gt 0 ] || set -- vit adamw bf16_steps optimizers schedules pillow_resize timm_local_dir positions patches timm_vit_table \
  image_models layers initial_moments timm_variants losses mixup augment crop_draws tensorflow_ops tensorflow_crop_draws data_formats text fuzz_seeds \
  hugging_face_weights hugging_face_processors lr_suggestions timm_inputs csv_tables class_scores multi_label_scores mat_files torch_files split_norm crops cudnn_attention ${TIMM:+timm_commands} ${BIG_VISION:+cappa captions two_tower metrics big_vision_text_ops big_vision_optimizers big_vision_weights big_vision_losses}
for script; do
  case $script in
    fuzz_seeds | csv_tables)  # need Python's own library alone
      "${PYTHON:-python3}" "$here"/*/"$script.py"
      continue
      ;;
    packages)  # what tests read exported models with
      need requirements.txt references
      need requirements-transformers.txt references-transformers
      continue
      ;;
    data_formats | check_convert) need requirements-formats.txt references-formats --no-binary promise ;;
    text) need requirements-text.txt references-text ;;
    lr_suggestions) need requirements-fastai.txt references-fastai ;;
    tensorflow_* | big_vision_text_ops) need requirements-tensorflow.txt references-tensorflow ;;
    cappa | captions | two_tower | metrics | class_scores | multi_label_scores | mat_files | cudnn_attention | big_vision_*) need requirements-jax.txt references-jax ;;
    hugging_face_weights | hugging_face_processors)
      need requirements.txt references
      need requirements-transformers.txt references-transformers
      export PYTHONPATH="$venv/lib/python3.11/site-packages:$modules"
      venv=$deps/references
      ;;
    *) need requirements.txt references ;;
  esac
  "$venv/bin/python" "$here"/*/"$script.py"
done
