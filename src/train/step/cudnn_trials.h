#pragma once
// Whether cuDNN's attention works on this machine: the plugin, cuDNN's version and the GPU decide that together.

#include <map>
#include <memory>
#include <string>

#include "ir/program/cudnn_attention.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"

namespace tessera::train {

// Asked for sizes, compiles attention of two examples and its gradient on one device, runs them, and compares them with plain ops
// in f32. Each sizes are tried once, with a note where they don't work; copies share what was tried. The client lives longer.
class CudnnTrials {
 public:
  CudnnTrials(const pjrt::Client& client, pjrt::ExecutableCache cache) : client_(&client), cache_(std::move(cache)) {}

  bool operator()(const ir::AttentionSizes& sizes) const { return failure(sizes).empty(); }
  // Why it doesn't work, in the plugin's words or with the difference; empty where it does.
  const std::string& failure(const ir::AttentionSizes& sizes) const;

 private:
  const pjrt::Client* client_;
  pjrt::ExecutableCache cache_;
  std::shared_ptr<std::map<ir::AttentionSizes, std::string>> tried_ =
      std::make_shared<std::map<ir::AttentionSizes, std::string>>();
};

// The program of a trial, without arguments: scalars of f32, two each for the result and the cotangents of q, k and v: the largest
// difference between cuDNN's and the plain ones, and the largest of the plain ones.
std::string trial_program(const ir::AttentionSizes& sizes);

}  // namespace tessera::train
