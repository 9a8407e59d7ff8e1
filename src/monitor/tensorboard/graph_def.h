#pragma once
// A model as TensorFlow's GraphDef (tensorflow/core/framework/graph.proto), which TensorBoard's Graphs tab draws.

#include <string>

#include "monitor/record.h"

namespace tessera::monitor {

// Serialised.
std::string graph_def(const ModelGraph& graph);

}  // namespace tessera::monitor
