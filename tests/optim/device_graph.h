#pragma once
// Runs a small graph on the CPU plugin: f32 arrays in, f32 arrays out.

#include <functional>
#include <vector>

#include "ir/emit.h"
#include "ir/ops.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin.h"

namespace tessera::testing {

inline std::shared_ptr<pjrt::Client> cpu_client() {
  static const std::shared_ptr<pjrt::Client> client = pjrt::Client::create(pjrt::Plugin::load(TESSERA_CPU_PLUGIN));
  return client;
}

struct F32 {
  Dims dims;
  std::vector<float> values;
};

// `build` gets the arguments' values in a fresh graph and gives its f32 results.
inline std::vector<std::vector<float>> run_graph(const std::vector<F32>& inputs,
                                                 const std::function<ir::Values(const ir::Values&)>& build) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  ir::Values arguments;
  for (const F32& input : inputs) arguments.push_back(graph.add_parameter({DType::kF32, input.dims}));
  graph.results = build(arguments);
  const auto client = cpu_client();
  const pjrt::Executable program = client->compile(ir::emit(graph));
  std::vector<pjrt::Buffer> buffers;
  std::vector<pjrt::Buffer*> pointers;
  for (const F32& input : inputs) buffers.push_back(client->to_device(input.values.data(), {DType::kF32, input.dims}));
  for (pjrt::Buffer& buffer : buffers) pointers.push_back(&buffer);
  std::vector<std::vector<float>> outputs;
  for (const pjrt::Buffer& result : program.run(pointers)) outputs.push_back(result.to_host<float>());
  return outputs;
}

// Values in [-scale, scale] that differ from place to place and are the same every time.
inline F32 pattern(const Dims& dims, double scale, int salt = 0) {
  F32 array{dims, {}};
  for (int64_t i = 0; i < element_count(dims); ++i) {
    array.values.push_back(
        static_cast<float>(scale * (static_cast<double>((i * 7919 + salt * 104729 + 13) % 1009) / 504.0 - 1)));
  }
  return array;
}

}  // namespace tessera::testing
