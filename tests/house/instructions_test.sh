#!/usr/bin/env bash
# instructions_test.sh PROGRAM: no instruction of AVX-VNNI is in it. The program chooses its code by AVX-512's VNNI, and Ice Lake and
# Zen 4 have that without AVX-VNNI; a processor with both runs either, so no test there would notice.
set -euo pipefail
code=$(objdump --disassemble --no-show-raw-insn "$1")
[[ -n $code ]] || { echo "objdump shows no code of $1" && exit 1; }
# objdump writes {vex} where AVX-512 has an instruction of the same name.
if grep --max-count=5 '{vex}' <<<"$code"; then
  echo "instructions of AVX-VNNI in $1" && exit 1
fi
