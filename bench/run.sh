#!/usr/bin/env bash
# ./dev bench [step|bf16|digits|sinks|resnet|families|product|predict|scale|data|start|memory]… [--rounds N] [--peers a,b]: installs the peers that the parts need,
# then runs bench/bench.py. A peer that can't be installed is left out with a line that says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly log=.deps/log/bench.log
mkdir -p .deps/log build/bench
source tools/setup/pip.sh

# install NAME LIST [BUILT]: BUILT is a package that comes as source only, with what builds it in the list before it.
install() {
  if [[ -n ${3:-} ]]; then
    grep -v "^$3==" "$2" >".deps/log/${2##*/}"  # no `<(…)`: pip starts another Python, which would not have it
    pip_install ".deps/$1" --only-binary :all: -r ".deps/log/${2##*/}" || return
  fi
  CC='gcc -mavx2' pip_install ".deps/$1" --only-binary :all: ${3:+--no-binary "$3" --no-build-isolation} -r "$2"
}

# environment NAME LIST SIZE [BUILT]: .deps/NAME holds the packages of LIST, which is what its stamp says.
environment() {
  local stamp=".deps/$1/${2##*/}"
  cmp -s "$2" "$stamp" && return
  printf '%-36s' "$1 (${2##*/}, $3)" >&2
  if install "$1" "$2" "${4:-}" </dev/null >>"$log" 2>&1; then
    cp "$2" "$stamp"
    echo 'installed' >&2
  else
    echo "not installed: its rows are left out; see $log" >&2
  fi
}

photos() {
  [[ -d build/bench/photos/photos ]] && return
  environment bench-photos tools/setup/bench-photos.txt 'the photographs, 100 MB'
  rm -rf build/bench/photos.partial
  .deps/bench-photos/bin/python tools/make_photos.py build/bench/photos.partial >>"$log" 2>&1 || return 0
  mv build/bench/photos.partial build/bench/photos
}

parts=" $* "
wants() {
  local part
  for part; do [[ $parts == *" $part "* ]] && return; done
  [[ ! $parts =~ \ (step|bf16|digits|sinks|resnet|families|product|predict|scale|data|start|memory)\  ]]
}

wants step digits scale start && environment bench-jax tools/setup/bench-jax.txt '150 MB'
wants step bf16 digits resnet families product && environment references tools/references/requirements.txt 'PyTorch, 2.5 GB'
wants step bf16 digits resnet families product && environment references tools/setup/bench-torch.txt 'for torch.compile'
wants step && environment bench-torch-xla tools/setup/bench-torch-xla.txt 'PyTorch/XLA, 3 GB'
wants predict && environment references tools/references/requirements.txt 'PyTorch, 2.5 GB'
wants predict && environment references tools/setup/bench-torch.txt 'for torch.compile'
wants predict && environment references tools/setup/bench-inference.txt 'ONNX Runtime and OpenVINO, 0.1 GB'
wants predict data memory && photos
wants data && environment references tools/references/requirements.txt 'timm with PyTorch, 2.5 GB'
wants data && environment references-tensorflow tools/references/requirements-tensorflow.txt 'TensorFlow, 0.3 GB'
wants data && environment bench-data tools/setup/bench-data.txt 'DALI and grain, 0.3 GB'
wants data && environment bench-pillow-simd tools/setup/bench-pillow-simd.txt 'Pillow-SIMD, built here' pillow-simd
exec python3 bench/bench.py "$@"
