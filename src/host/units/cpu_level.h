#pragma once
// TESSERA_CPU holds this program's own functions to what another processor would have, to see what it would compute and how
// fast: `baseline` (any x86-64), `ssse3`, `sse4`, `avx2`; `avx512`, without products of bf16; `avx512_bf16`, without the matrix
// unit (AMX). XLA's code is held by
// XLA_FLAGS=--xla_cpu_max_isa=AVX2.

namespace tessera::host {

// What the environment leaves to us.
bool matrix_unit_allowed();
bool vector_bf16_allowed();

}  // namespace tessera::host
