#pragma once
// Traces programs over a model's parameters, besides those of training and evaluation.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/ops.h"
#include "train/step/trace.h"

namespace tessera::inference {

// A program that is being traced. The parameters are its first arguments.
class Tracer {
 public:
  Tracer(const state::StateLayout& layout, const train::ProgramOptions& options)
      : layout_(layout), options_(options), scope_(graph_) {
    for (size_t i = 0; i < layout.params; ++i) params_.push_back(argument(layout.entries[i].type, layout.entries[i].name));
  }

  ir::Value argument(const TensorType& type, const std::string& name) { return graph_.add_parameter(type, name); }
  const ir::Values& apply(const std::function<ir::Values(const nn::Scope&)>& body) {
    return graph_.results = train::trace(layout_, params_, {}, options_, body);
  }
  train::Program program(const std::string& name, const std::vector<std::pair<int64_t, int64_t>>& aliases = {}) const {
    return train::inference_program(graph_, {.name = name, .aliases = aliases}, layout_, options_);
  }

 private:
  const state::StateLayout& layout_;
  const train::ProgramOptions& options_;
  ir::Graph graph_;
  ir::GraphScope scope_;
  ir::Values params_;
};

}  // namespace tessera::inference
