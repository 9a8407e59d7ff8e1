#pragma once
// The gradient of a batch where each virtual device of this host computes that of its rows, as each of several processes does:
// by the program of one device, with the sums between them in an order that does not depend on which devices are in one process
// (cluster/group/pairwise_sum.h). So one process of four devices, two of two, and four of one end with the same bytes. On other
// machines, and where a device has but a part of the parameters, the program is of the whole batch and XLA's partitioner cuts it.

#include <cstdint>
#include <memory>

#include "ir/manual.h"
#include "train/step/batch_gradient.h"

namespace tessera::train {

// What the gradient of a step is made of.
struct StepInputs {
  ir::Values params, teacher;
  ir::Value key;            // of what the step draws
  objectives::Batch batch;  // as it came
  ir::Value augment;        // null where the augmentation takes no values
  ir::Processes processes;
  ir::Value votes;  // null where there is one process

  // Every value that is there, in a fixed order, with the dimension that its rows are along, or ir::kWhole.
  template <class Fn>
  void each(Fn&& fn) {
    const auto visit = [&](ir::Value& value, int64_t rows) {
      if (value) fn(value, rows);
    };
    for (ir::Values* whole : {&params, &teacher}) {
      for (ir::Value& value : *whole) visit(value, ir::kWhole);
    }
    for (ir::Value* whole : {&key, &processes.index, &votes}) visit(*whole, ir::kWhole);
    for (ir::Value* rows : {&batch.images, &batch.labels, &augment}) visit(*rows, 0);
    for (ir::Value& tokens : batch.tokens) visit(tokens, 0);
  }
};

struct StepGradient {
  BatchGradient batch;
  ir::Value votes;  // summed, once a device; null as those of the inputs
};

// Whether each device computes the gradient of its rows by itself.
bool by_device(const state::StateLayout& layout, const ProgramOptions& options);
// What such programs are made for.
std::unique_ptr<const ir::Target> device_target(const state::StateLayout& layout, const ProgramOptions& options);

StepGradient step_gradient(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                           const ProgramOptions& options, const StepInputs& inputs);

}  // namespace tessera::train
