#pragma once
// Reverse-mode differentiation, building gradient nodes in the graph that holds the outputs.

#include "ir/graph.h"

namespace tessera::ir {

// d loss / d wrt[i] for a scalar loss; zeros where the loss does not depend on it. Call in the GraphScope of loss's graph.
Values gradient(Value loss, const Values& wrt);

// Cotangents of `wrt` given those of `outputs` (none = zero in, none = zero out).
Values vjp(const Values& outputs, const Values& cotangents, const Values& wrt);

}  // namespace tessera::ir
