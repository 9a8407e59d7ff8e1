#pragma once
// A program of a run, and what it is made for.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/shape.h"
#include "data/transform/pp.h"
#include "objectives/objective.h"
#include "optim/average.h"
#include "recipe/recipe.h"
#include "recipe/teacher.h"
#include "train/step/augment.h"
#include "train/step/hardware.h"

namespace tessera::train {

struct ProgramOptions {
  int64_t batch = 1;              // rows of the program: of this process, or of all where one mesh spans them
  int64_t processes = 1;          // training: that share a batch, each with a program over its rows (ir/processes.h)
  bool joint = false;             // training: the layout's mesh spans several processes
  int64_t devices_that_meet = 1;  // of them, virtual devices of this process (train/step/by_device.h)
  Dims image_size;                // rows and columns of the images; empty: the model's
  data::PixelScale pixels;        // bytes -> numbers: what the pp chain leaves to the device
  DType compute = DType::kF32;    // of activations and products
  std::optional<int64_t> optimization_level;  // pjrt::CompileOptions
  Hardware hardware;
  bool keeps_activations = false;  // on GPUs, where a recipe leaves remat to the program; training only
  bool one_call = false;           // of a model's use: there is nothing to prepare for further calls
  // Training only.
  std::shared_ptr<const objectives::Objective> objective;
  Augmentation augmentation;
  std::optional<optim::Average> average;      // where the layout has averages
  std::optional<recipe::GuardOptions> guard;  // where the layout has it
  // Micro-batches inside the training step; divides batch, and each is divisible over the mesh. Micro-batch i of n holds the
  // rows i, i + n, i + 2 n, …
  int64_t accumulate = 1;
  std::shared_ptr<const recipe::Teacher> teacher;  // where the objective has one
};

struct Program {
  std::string name;
  std::string text;
  int64_t devices = 1;
  std::optional<int64_t> optimization_level;  // pjrt::CompileOptions
  std::vector<int64_t> donated;               // arguments whose memory the results take over
  std::vector<float> numbers;                 // its last arguments, f32 scalars (ir/numbers.h)
  bool once = false;                          // runs once: quick to compile matters more than quick to run
  bool profiled = false;                      // by the plugin's profiler, too
  bool calls_cudnn = false;                   // for attention (ir/program/cudnn_attention.h)
  // Where its first arguments are a model's parameters, the same in many calls: the text of a program that makes of them what
  // calls take in their place; empty: calls take all of them. `kept`: places of those that calls take as they are, before what
  // is prepared (train/step/fixed_arguments.h).
  std::string prepare;
  std::vector<size_t> kept;
  // The same that computes more again in the gradient, for devices where this one does not fit; or null.
  std::shared_ptr<const Program> smaller;
};

}  // namespace tessera::train
