#pragma once
// From program text to something that runs: in the background, through the cache, with memory errors that name the arrays.

#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/shape.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"
#include "state/device_arrays.h"
#include "train/step/step.h"

namespace tessera::train {

struct Compiled {
  pjrt::Executable executable;
  pjrt::CompileReport report;
  std::vector<float> numbers = {};  // Program::numbers
  // Program::prepare, or null, and Program::kept.
  std::shared_ptr<const pjrt::Executable> prepare = nullptr;
  std::vector<size_t> kept = {};
};

// A device error that says what did not fit: the plugin's words, the account of the arrays and the largest of them.
Error out_of_memory(const std::string& what, const std::string& plugin_message, std::vector<NamedType> arrays);

pjrt::CompileOptions compile_options(const pjrt::Client& client, const Program& program);

// For CPUs, where what is compiled runs once or never: without optimization, and by XLA's older code generator, which is itself
// quicker.
void compile_quickly(pjrt::CompileOptions& options);

// Whether a device with so many bytes has room for a program, the batches on their way, evaluators' programs and the allocator's
// gaps. What decides about Program::smaller.
bool fits_with_the_rest(const pjrt::CompiledMemory& needed, int64_t available);

// Compiles, waiting; a program's smaller one in its place where it does not fit, with a note. `arrays` are the program's arguments,
// for messages.
Compiled compile(const pjrt::Client& client, const Program& program, const pjrt::ExecutableCache& cache,
                 const std::vector<NamedType>& arrays);

// Compiles programs side by side, each on a thread of its own.
class Compiler {
 public:
  // `profiled`: while the programs run, the plugin's profiler may record them.
  explicit Compiler(std::shared_ptr<pjrt::Client> client, bool profiled = false)
      : client_(std::move(client)), profiled_(profiled) {}
  // Waits for what is under way, but not where an exception passes: then it is abandoned.
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  std::future<Compiled> start(Program program, pjrt::ExecutableCache cache, std::vector<NamedType> arrays);
  // The process is about to end, and a plugin can't be asked to give a compilation up: what is under way is left to itself. The
  // process must then end without destructors of globals (cli/program/main.cc).
  void abandon();

 private:
  std::shared_ptr<pjrt::Client> client_;
  const bool profiled_;
  std::vector<std::thread> threads_;
  const int exceptions_ = std::uncaught_exceptions();
};

// A program's numbers as its last arguments on every device of the mesh.
state::DeviceArrays place_numbers(const std::vector<float>& numbers, const pjrt::Client& client, const mesh::Mesh& mesh);

// The arguments of a program over the first `count` entries of a layout, and its batch.
std::vector<NamedType> arguments_of(const state::StateLayout& layout, size_t count, const TensorType& images);

}  // namespace tessera::train
