#pragma once
// Options as the C API takes them. Only .cc files of this folder include this.

#include <pjrt_c_api.h>

#include <vector>

#include "pjrt/option_value.h"

namespace tessera::pjrt {

// Views of `options`, which must outlive them.
std::vector<PJRT_NamedValue> named_values(const Options& options);

}  // namespace tessera::pjrt
