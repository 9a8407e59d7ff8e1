#pragma once
// Parts of a finished, lowered graph -> calls of kernels on the host (host/register.h).

#include <string>

#include "ir/graph.h"

namespace tessera::ir {

// In a lowered graph and its regions: every f32 dot_general that is large enough to gain, and whose operands lie in memory as
// [batch…, rows…, contracted…] or [batch…, contracted…, rows…] (all that dense layers, attention and their gradients make),
// becomes custom_call @target with that kernel's attributes. Others are left alone. In a program for several devices only what
// each of them computes alone (ir/manual.h): a call is opaque to the partitioner.
void call_host_product(Graph& lowered, const std::string& target, bool several_devices = false);

// Whether a product of this many multiply-adds gains by a call.
bool worth_a_call(int64_t multiply_adds);

// Large stacks that a scan fills slice by slice become custom_call @target, which leaves their memory as it is, instead of
// zeros that are never read.
void call_host_stacks(Graph& lowered, const std::string& target);

}  // namespace tessera::ir
