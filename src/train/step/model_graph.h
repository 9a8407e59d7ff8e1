#pragma once
// A model's forward pass as a graph of names, for TensorBoard to draw.

#include "models/model.h"
#include "monitor/record.h"

namespace tessera::train {

// The trace of one example. Nodes stand under the path of their layer, parameters too; a scan over blocks is drawn once. Traces
// the model.
monitor::ModelGraph model_graph(const models::Model& model);

}  // namespace tessera::train
