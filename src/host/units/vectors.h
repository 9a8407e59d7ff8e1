#pragma once
// Products on the vector units: of f32 on every processor, of bf16 where AVX-512 multiplies such (AVX512-BF16). Sums over k are
// taken one after the other, in f32. The left side is read where it lies, unless its numbers have another dtype or are not dense
// along k.

#include "host/units/unit.h"

namespace tessera::host {

// Numbers are what XLA and others make of them: infinities, NaN and subnormal ones too.
const Unit& vector_unit();

// Only where vector_bf16_available(). Subnormal numbers count as zero, and f32 is rounded to the nearest bf16, ties to even.
const Unit& vector_bf16_unit();
bool vector_bf16_available();

}  // namespace tessera::host
