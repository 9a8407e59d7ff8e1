#pragma once
// TESSERA_CPU=avx2 or avx512 holds this program's own functions to instructions of that level, on a processor that has more:
// to see what another machine would compute. avx512 is without the matrix unit. XLA's code is held by
// XLA_FLAGS=--xla_cpu_max_isa=AVX2.

namespace tessera::host {

// Whether the environment leaves the matrix unit to us.
bool matrix_unit_allowed();

}  // namespace tessera::host
