#pragma once
// The gradient of a training batch, at once or in micro-batches.

#include "ir/ops.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "state/state.h"
#include "train/step/augment.h"
#include "train/step/program.h"

namespace tessera::train {

struct BatchGradient {
  ir::Values grads;     // of the trainable parameters
  ir::Values measured;  // means of the loss and of the objective's metrics, already divided by the whole batch
  ir::Values buffers;   // what the layout's buffers become
};

// What a gradient is taken of. All of it outlives the call; values are of the current graph.
struct Differentiated {
  const models::Model& model;
  const state::StateLayout& layout;
  const optim::Optimizer& optimizer;  // says which parameters are trainable
  const ProgramOptions& options;
  ir::Values params, teacher;  // all of the layout's, and of the teacher's where there is one
  ir::Processes processes;     // that share the batch
};

// `rows` are the whole batch, or this process's part of it, whose gradients and measurements are then summed over the processes; `key` draws what the step draws.
BatchGradient batch_gradient(const Differentiated& of, const TrainRows& rows, ir::Value key);

}  // namespace tessera::train
