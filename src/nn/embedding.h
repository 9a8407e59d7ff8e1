#pragma once

#include "nn/scope.h"

namespace tessera::nn {

// The rows of a table at `ids`, integers of any shape in [0, rows): [.., features] in the compute dtype. Its gradient is summed
// in f32. Parameter `embedding` [rows, features].
ir::Value embedding(const Scope& scope, ir::Value ids, int64_t rows, int64_t features, const Init& init = init::normal(1));

}  // namespace tessera::nn
