#include "train/step/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/system/large_blocks.h"
#include "base/text/text.h"
#include "pjrt/plugin/cuda_toolkit.h"
#include "pjrt/plugin/error.h"

namespace tessera::train {

Error out_of_memory(const std::string& what, const std::string& plugin_message, std::vector<NamedType> arrays) {
  constexpr size_t kNamed = 5;
  int64_t total = 0;
  for (const NamedType& array : arrays) total += byte_count(array.type);
  std::stable_sort(arrays.begin(), arrays.end(),
                   [](const NamedType& a, const NamedType& b) { return byte_count(a.type) > byte_count(b.type); });
  std::string text = fmt::format("not enough memory on the device: {}\n  {} arrays of the run take {}; the largest:", what,
                                 arrays.size(), human_bytes(static_cast<double>(total)));
  for (size_t i = 0; i < std::min(kNamed, arrays.size()); ++i) {
    text += fmt::format("\n  {:>10}  {} {}", human_bytes(static_cast<double>(byte_count(arrays[i].type))), arrays[i].name,
                        to_string(arrays[i].type));
  }
  return device_error(text, plugin_message,
                      "make `data.batch` smaller, set `accumulate` (micro-batches inside a step), or take a smaller model");
}

void compile_quickly(pjrt::CompileOptions& options) {
  options.flags["xla_backend_optimization_level"] = int64_t{0};
  options.flags["xla_cpu_use_fusion_emitters"] = false;
}

pjrt::CompileOptions compile_options(const pjrt::Client& client, const Program& program) {
  pjrt::CompileOptions options;
  options.donated = program.donated;
  options.num_partitions = program.devices;
  if (client.group().several()) {
    for (const pjrt::Device& device : client.devices()) options.device_ids.push_back(device.id);
  }
  options.optimization_level = program.optimization_level;
  if (program.once && client.platform_name() == "cpu") compile_quickly(options);
  const std::string toolkit = client.platform_name() == "cuda" ? pjrt::cuda_toolkit(client.plugin().path()) : "";
  if (!toolkit.empty()) options.flags["xla_gpu_cuda_data_dir"] = toolkit;
  // The gradient of cuDNN's attention is summed up in any order otherwise.
  if (program.calls_cudnn) options.flags["xla_gpu_exclude_nondeterministic_ops"] = true;
  // XLA makes graphs of so many operations or more.
  if (program.profiled && client.platform_name() == "cuda") options.flags["xla_gpu_graph_min_graph_size"] = int64_t{1} << 30;
  return options;
}

namespace {

// The program that prepares the parameters of `program`.
Program preparing(const Program& program) {
  return {.name = "prepare_" + program.name,
          .text = program.prepare,
          .optimization_level = program.optimization_level,
          .profiled = program.profiled};
}

// The reports of a program and of the one that prepares its parameters, as one.
pjrt::CompileReport joined(pjrt::CompileReport report, const pjrt::CompileReport& more) {
  report.seconds += more.seconds;
  report.cached = report.cached && more.cached;
  if (report.reason.empty()) report.reason = more.reason;
  if (report.not_kept.empty()) report.not_kept = more.not_kept;
  return report;
}

Compiled compile_this(const pjrt::Client& client, const Program& program, const pjrt::ExecutableCache& cache) {
  pjrt::CompileReport report;
  pjrt::Executable executable = pjrt::compile_cached(client, program.text, compile_options(client, program), cache, &report);
  give_back_free_memory();  // what a plugin takes to compile or load a program is a multiple of the program
  Compiled compiled{std::move(executable), report, program.numbers, nullptr, program.kept};
  if (program.prepare.empty()) return compiled;
  Compiled prepare = compile_this(client, preparing(program), cache);
  compiled.report = joined(report, prepare.report);
  compiled.prepare = std::make_shared<const pjrt::Executable>(std::move(prepare.executable));
  return compiled;
}

// Nothing where the device has too little memory to spare for it.
std::optional<Compiled> compile_if_it_fits(const pjrt::Client& client, const Program& program,
                                           const pjrt::ExecutableCache& cache) {
  try {
    Compiled compiled = compile_this(client, program, cache);
    const auto memory = client.memory(client.own_devices().at(0));
    const bool fits = !memory || !memory->limit || fits_with_the_rest(compiled.executable.memory(), *memory->limit);
    if (fits) return compiled;
    // The next start compiles it again: not every plugin says what a program takes that it loads from the cache.
    cache.remove(pjrt::cache_key(client, program.text, compile_options(client, program)));
  } catch (const Error& error) {
    if (!pjrt::is_out_of_memory(error)) throw;
  }
  return std::nullopt;
}

}  // namespace

bool fits_with_the_rest(const pjrt::CompiledMemory& needed, int64_t available) {
  constexpr double kShare = 0.8;
  return static_cast<double>(needed.at_worst()) <= kShare * static_cast<double>(available);
}

Compiled compile(const pjrt::Client& client, const Program& program, const pjrt::ExecutableCache& cache,
                 const std::vector<NamedType>& arrays) {
  if (program.smaller) {
    if (auto compiled = compile_if_it_fits(client, program, cache)) return *std::move(compiled);
    log_note(
        "activations would take too much of the device's memory: the backward pass computes them again (remat = \"dots\")");
  }
  Program last = program.smaller ? *program.smaller : program;
  last.profiled = program.profiled;
  try {
    return compile_this(client, last, cache);
  } catch (const Error& error) {
    if (!pjrt::is_out_of_memory(error)) throw;
    throw out_of_memory("compiling " + last.name, error.message(), arrays);
  }
}

Compiler::~Compiler() {
  if (std::uncaught_exceptions() > exceptions_) abandon();
  for (std::thread& thread : threads_) thread.join();
}

void Compiler::abandon() {
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
}

// The thread has no reference to the Compiler, because it may outlive it.
std::future<Compiled> Compiler::start(Program program, pjrt::ExecutableCache cache, std::vector<NamedType> arrays) {
  program.profiled = profiled_;
  std::packaged_task<Compiled()> task([client = client_, program = std::move(program), cache = std::move(cache),
                                       arrays = std::move(arrays)] { return compile(*client, program, cache, arrays); });
  std::future<Compiled> future = task.get_future();
  threads_.emplace_back(std::move(task));
  return future;
}

state::DeviceArrays place_numbers(const std::vector<float>& numbers, const pjrt::Client& client, const mesh::Mesh& mesh) {
  state::DeviceArrays arrays(static_cast<size_t>(mesh.devices()));
  for (size_t d = 0; d < arrays.size(); ++d) {
    if (!client.is_own(d)) continue;
    for (const float number : numbers) arrays[d].push_back(client.to_device(&number, {DType::kF32, {}}, d));
  }
  return arrays;
}

std::vector<NamedType> arguments_of(const state::StateLayout& layout, size_t count, const TensorType& images) {
  std::vector<NamedType> arrays;
  for (size_t i = 0; i < count; ++i) arrays.push_back({layout.entries[i].name, layout.entries[i].type});
  arrays.push_back({"images", images});
  return arrays;
}

}  // namespace tessera::train
