#pragma once
// The entries kOpAbs, kOpAdd, … of ops.def. A name without an entry in ir/ops/*.cc does not link.

#include "ir/graph.h"

namespace tessera::ir {

#define OP(name) extern const OpDef kOp##name;
#include "ir/ops.def"
#undef OP

}  // namespace tessera::ir
