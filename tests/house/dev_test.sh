#!/usr/bin/env bash
# ./dev's own functions. Set-up runs in a directory of its own: what fails leaves no stamp that says it was done.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../dev"

fail() { echo "dev_test: $1" && exit 1; }

# A command that is asked for help does nothing else.
[[ $(main build --help) == "$(usage)" && $(main fuzz 60 -h) == "$(usage)" ]] || fail "help of a command is not the list"
[[ $(main bench --help) == "usage: ./dev bench"* ]] || fail "help of the benchmark: $(main bench --help)"

said=$(main lint src/base/log.cc src/base/log.h 2>&1) && fail "a header was linted"
[[ $said == *"name .cc files"* ]] || fail "a header to lint: $said"

place=$(mktemp -d)
trap 'rm -r "$place"' EXIT
mkdir -p "$place"/{.deps/log,.deps/venv/bin,.deps/pip/bin,tools/setup,tmp}
cp tools/setup/{headers.txt,pip.sh} "$place/tools/setup/"

# The first thing that fails ends a command, and the file may become another one meanwhile.
sed '/^# Tests take the functions alone/i cmd_format() { echo "}" >>dev; [[ ! -e failing ]]; echo went on; }' dev >"$place/dev"
[[ $(bash "$place/dev" format 2>&1) == "went on" ]] || fail "a replaced ./dev: $(bash "$place/dev" format 2>&1)"
touch "$place/failing"
if said=$(bash "$place/dev" format 2>&1) || [[ $said == *"went on"* ]]; then fail "a command whose step failed went on"; fi

cd "$place"
export TMPDIR=$place/tmp

# set_up FAILING: the headers, where python fails if its arguments have this word in them. Sets $code.
set_up() {
  local program
  for program in venv/bin/python pip/bin/pip pip/bin/python; do
    printf '#!/bin/sh\ncase "$*" in *%s*) exit 7 ;; esac\n' "$1" >".deps/$program"
    chmod +x ".deps/$program"
  done
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

# A test that was skipped counts where nothing is missing that it needs.
mkdir -p tests
printf 'amx kernels\\.Dense\\..*\nroot store\\.Root\\..*\n' >tests/expected_skips.txt
cat >log <<'TEXT'
 1/4 Test #12: kernels.Dense.FollowsTheFormulas ......***Skipped   0.01 sec
 2/4 Test  #7: store.Root.OnlyRootCould ..............***Skipped   0.01 sec
 3/4 Test #13: kernels.DenseOther.Runs ...............***Skipped   0.01 sec
 4/4 Test #14: kernels.Dense.DoesNotDependOnThreads ..   Passed    0.01 sec
TEXT
skips() { (missing=$1 && lacks() { [[ $1 == "$missing" ]]; } && unexpected_skips log | tr "\n" " "); }
[[ $(skips amx) == "store.Root.OnlyRootCould kernels.DenseOther.Runs " ]] || fail "without AMX: $(skips amx)"
[[ $(skips root) == "kernels.Dense.FollowsTheFormulas kernels.DenseOther.Runs " ]] || fail "not as root: $(skips root)"
[[ $(skips none) == *Dense.Follows*Root*DenseOther* ]] || fail "with all: $(skips none)"
