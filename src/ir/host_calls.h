#pragma once
// Parts of a finished, lowered graph -> calls of kernels on the host (kernels/register.h).

#include <string>

#include "ir/graph.h"

namespace tessera::ir {

// In a lowered graph and its regions: every f32 dot_general that is large enough to gain, and whose operands lie in memory as
// [batch…, rows…, contracted…] or [batch…, contracted…, rows…] (all that dense layers, attention and their gradients make),
// becomes custom_call @target with that kernel's attributes. Others are left alone.
void call_host_product(Graph& lowered, const std::string& target);

// Large stacks that a scan fills slice by slice become custom_call @target, which leaves their memory as it is, instead of
// zeros that are never read.
void call_host_stacks(Graph& lowered, const std::string& target);

}  // namespace tessera::ir
