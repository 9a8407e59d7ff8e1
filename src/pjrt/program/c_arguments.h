#pragma once
// Options and programs as the C API takes them. Only .cc files of this folder include this.

#include <pjrt_c_api.h>

#include <string_view>
#include <vector>

#include "pjrt/program/option_value.h"

namespace tessera::pjrt {

// Views of `options`, which must outlive them.
std::vector<PJRT_NamedValue> named_values(const Options& options);

// A view of StableHLO text, which must outlive it.
PJRT_Program mlir_program(std::string_view stablehlo);

}  // namespace tessera::pjrt
