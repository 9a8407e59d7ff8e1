#pragma once
// Whether cuDNN's attention works on this machine: the plugin, cuDNN's version and the GPU decide that together.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/program/cudnn_attention.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"

namespace tessera::train {

// Called with sizes, it compiles attention of two examples and its gradient for one device, twice in one program as in a model's
// blocks, runs them, and compares them with plain ops in f32. It tries the same sizes once, and says in a note where they don't
// work. Copies share their results. The client must outlive them.
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

// The graph of a trial, without parameters. Its results are scalars of f32, for each of the two calls two for attention's result and
// for the cotangents of q, k and v: the largest difference between cuDNN's and the plain ones, and the largest of the plain ones.
std::unique_ptr<ir::Graph> trial_graph(const ir::AttentionSizes& sizes);
// What is wrong with these results; empty: nothing.
std::string trial_problem(const std::vector<float>& results);

}  // namespace tessera::train
