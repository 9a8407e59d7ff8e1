#pragma once
// The entries kOpAbs, kOpAdd, … of ops.def. A name without an entry in ir/ops/*.cc does not link.

#include "ir/graph.h"

namespace tessera::ir {

#define OP(name) extern const OpDef kOp##name;
#include "ir/ops.def"
#undef OP

// What a node of kOpCustomCall carries; `attributes` is the inside of its backend_config.
Attrs custom_call_attrs(const std::string& target, const std::vector<TensorType>& results, const std::string& attributes);

}  // namespace tessera::ir
