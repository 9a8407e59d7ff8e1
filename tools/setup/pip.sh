# shellcheck shell=bash
# For ./dev and bench/run.sh, in the root of the checkout.

# pip ARGUMENT…: that of one environment, which the others share: to give each its own takes 3 s.
pip() {
  [[ -x .deps/pip/bin/pip ]] || /usr/bin/python3 -m venv .deps/pip || return
  .deps/pip/bin/python -m pip "$@"
}

make_environment() { [[ -x $1/bin/python ]] || /usr/bin/python3 -m venv --without-pip "$1"; }

# pip_install ENVIRONMENT ARGUMENT…: into an environment, which is made where there is none. What is never imported need not be
# compiled: that takes as long as the rest.
pip_install() {
  make_environment "$1" || return
  pip --python "$1/bin/python" install --no-compile --require-hashes --no-deps "${@:2}"
}

# link_packages ENVIRONMENT ARGUMENT…: the same for what tests, references and plans need, which is gigabytes. uv keeps it unpacked,
# and links it into the environments of all checkouts. It does not read pip's configuration: pip does it where that names an index
# or a proxy, or uv fails.
link_packages() {
  make_environment "$1" || return
  if need_uv && .deps/pip/bin/uv pip install --quiet --python "$1/bin/python" --require-hashes --no-deps "${@:2}"; then return; fi
  pip_install "$@"
}

need_uv() {
  [[ -x .deps/pip/bin/uv ]] && return
  [[ ! $(pip config list) =~ index-url|proxy ]] && pip install --quiet --require-hashes --only-binary :all: -r tools/setup/uv.txt
}
