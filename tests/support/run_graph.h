#pragma once
// Compiles a graph on the CPU plugin and runs it with arrays in host memory.

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"
#include "ir/program/program.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin/plugin.h"
#include "support/paths.h"

namespace tessera::testing {

// Row-major; bool is one byte.
struct HostArray {
  HostArray(TensorType array_type, std::vector<std::byte> bytes) : type(std::move(array_type)), data(std::move(bytes)) {}

  TensorType type;
  std::vector<std::byte> data;

  template <class T>
  std::vector<T> as() const {
    std::vector<T> values(data.size() / sizeof(T));
    if (!data.empty()) std::memcpy(values.data(), data.data(), data.size());
    return values;
  }
  std::vector<float> floats() const { return checked<float>(DType::kF32); }
  std::vector<double> doubles() const { return checked<double>(DType::kF64); }

 private:
  template <class T>
  std::vector<T> checked(DType dtype) const {
    TESSERA_CHECK(type.dtype == dtype, "{} read as {}", to_string(type), dtype_name(dtype));
    return as<T>();
  }
};

template <class T>
HostArray host_array(DType dtype, const Dims& dims, const std::vector<T>& values) {
  HostArray array{{dtype, dims}, std::vector<std::byte>(values.size() * sizeof(T))};
  TESSERA_CHECK(static_cast<int64_t>(array.data.size()) == byte_count(array.type), "{} values for {}", values.size(),
                to_string(array.type));
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}
inline HostArray f32_array(const Dims& dims, const std::vector<float>& values) { return host_array(DType::kF32, dims, values); }
inline HostArray i32_array(const Dims& dims, const std::vector<int32_t>& values) {
  return host_array(DType::kI32, dims, values);
}
inline HostArray f64_array(const Dims& dims, const std::vector<double>& values) {
  return host_array(DType::kF64, dims, values);
}

// One client a process: plugins are loaded once.
inline const std::shared_ptr<pjrt::Client>& cpu_client() {
  static const std::shared_ptr<pjrt::Client> client = pjrt::Client::create(pjrt::Plugin::load(testing::cpu_plugin_path()));
  return client;
}

// Compiles in less than half the time, to code that is many times slower: for graphs with little to compute.
inline pjrt::CompileOptions quick_compile() {
  pjrt::CompileOptions options;
  options.flags["xla_backend_optimization_level"] = int64_t{0};
  options.flags["xla_cpu_use_fusion_emitters"] = false;
  options.flags["xla_cpu_parallel_codegen_split_count"] = int64_t{1};
  return options;
}

// Through the cache of this test program (cache_path()): compiling takes most of the time of tests that run graphs, and the next
// processes, those that run as another processor among them, and the next time find what they have of the same programs.
inline pjrt::Executable compile_cached(const std::string& program, const pjrt::CompileOptions& options = {}) {
  return pjrt::compile_cached(*cpu_client(), program, options, pjrt::ExecutableCache(cache_path()));
}

// A compiled graph; run() may be called again with other arguments.
class CompiledGraph {
 public:
  // A target's kernels are registered with cpu_client() (host/register.h).
  explicit CompiledGraph(const ir::Graph& graph, const pjrt::CompileOptions& options = {}, const ir::Target* target = nullptr)
      : executable_(compile_cached(ir::program_text(graph, {.name = "test"}, target), options)) {}

  // The graph's results, for its parameters in order.
  std::vector<HostArray> run(const std::vector<HostArray>& arguments) const {
    std::vector<pjrt::Buffer> buffers;
    for (const HostArray& a : arguments) buffers.push_back(cpu_client()->to_device(a.data.data(), a.type));
    std::vector<pjrt::Buffer*> pointers;
    for (pjrt::Buffer& b : buffers) pointers.push_back(&b);
    std::vector<HostArray> results;
    for (const pjrt::Buffer& b : executable_.run(pointers)) {
      HostArray& result = results.emplace_back(HostArray{b.type(), std::vector<std::byte>(static_cast<size_t>(b.bytes()))});
      b.to_host(result.data.data(), result.data.size()).await();
    }
    return results;
  }

  const pjrt::Executable& executable() const { return executable_; }

 private:
  pjrt::Executable executable_;
};

inline std::vector<HostArray> run_graph(const ir::Graph& graph, const std::vector<HostArray>& arguments = {},
                                        const pjrt::CompileOptions& options = {}, const ir::Target* target = nullptr) {
  return CompiledGraph(graph, options, target).run(arguments);
}

// Traces `body` over one parameter for each argument, and runs it.
inline std::vector<HostArray> run(const std::vector<HostArray>& arguments,
                                  const std::function<ir::Values(const ir::Values&)>& body) {
  ir::Graph graph;
  ir::Values parameters;
  for (const HostArray& a : arguments) parameters.push_back(graph.add_parameter(a.type));
  const ir::GraphScope scope(graph);
  graph.results = body(parameters);
  return run_graph(graph, arguments);
}

}  // namespace tessera::testing
