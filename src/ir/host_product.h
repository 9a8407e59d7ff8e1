#pragma once
// Large f32 products -> calls of a kernel on the host.

#include <string>

#include "ir/graph.h"

namespace tessera::ir {

// In a lowered graph and its regions: every f32 dot_general that is large enough to gain, and whose operands lie in memory as
// [batch…, rows…, contracted…] or [batch…, contracted…, rows…] (all that dense layers, attention and their gradients make),
// becomes custom_call @target with kernels/register.h's attributes. Others are left alone.
void call_host_product(Graph& lowered, const std::string& target);

}  // namespace tessera::ir
