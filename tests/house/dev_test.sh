#!/usr/bin/env bash
# ./dev's set-up, in a directory of its own: what fails leaves no stamp that says it was done.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../dev"

place=$(mktemp -d)
trap 'rm -r "$place"' EXIT
mkdir -p "$place"/{.deps/log,.deps/venv/bin,tools/setup,tmp}
cp tools/setup/headers.txt "$place/tools/setup/"
cd "$place"
export TMPDIR=$place/tmp

fail() { echo "dev_test: $1" && exit 1; }

# set_up FAILING: the headers, where python fails if its arguments have this word in them. Sets $code.
set_up() {
  printf '#!/bin/sh\ncase "$*" in *%s*) exit 7 ;; esac\n' "$1" >.deps/venv/bin/python
  chmod +x .deps/venv/bin/python
  set +e
  (set -e && need_headers) 2>output
  code=$?
  set -e
}

for step in download unpack_headers; do
  set_up "$step"
  ((code == 7)) || fail "$step failed, and need_headers gave $code: $(cat output)"
  [[ ! -e .deps/venv/headers.stamp ]] || fail "$step failed and left a stamp"
done
set_up nothing
((code == 0)) || fail "need_headers gave $code: $(cat output)"
cmp -s tools/setup/headers.txt .deps/venv/headers.stamp || fail "no stamp of what was done"
[[ -z $(ls tmp) ]] || fail "left behind: $(ls tmp)"
