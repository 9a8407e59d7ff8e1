#include "train/model_flops.h"

#include "ir/flops.h"
#include "nn/scope.h"

namespace tessera::train {

double model_flops(const recipe::Recipe& recipe) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  graph.results = {recipe.model->trace(nn::Scope(store, {}))};
  return 3 * ir::product_flops(graph) * static_cast<double>(recipe.rows());
}

}  // namespace tessera::train
