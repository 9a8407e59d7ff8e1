#pragma once
// Element types as the C API numbers them.

#include "base/shape.h"

namespace tessera::pjrt {

// PJRT_Buffer_Type.
int pjrt_type(DType dtype);
// Throws a device Error for types the program has no use for (complex, 4-bit, 8-bit floats).
DType dtype_from_pjrt(int type);

}  // namespace tessera::pjrt
