#pragma once
// From program text to something that runs: in the background, through the cache, with memory errors that name the arrays.

#include <future>
#include <memory>
#include <string>
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
};

// A device error that says what did not fit: the plugin's words, the account of the arrays and the largest of them.
Error out_of_memory(const std::string& what, const std::string& plugin_message, std::vector<NamedType> arrays);

// Compiles on a thread of its own. A plugin can't be asked to give a compilation up: a future that is dropped leaves it to run
// on, and a process that ends meanwhile must do so without running destructors of globals (main.cc does). `arrays` are the
// program's arguments, for messages.
std::future<Compiled> compile_async(std::shared_ptr<pjrt::Client> client, Program program, pjrt::ExecutableCache cache,
                                    std::vector<NamedType> arrays);
// The same, waiting.
Compiled compile(const pjrt::Client& client, const Program& program, const pjrt::ExecutableCache& cache,
                 const std::vector<NamedType>& arrays);

// A program's numbers as its last arguments on every device of the mesh.
state::DeviceArrays place_numbers(const std::vector<float>& numbers, const pjrt::Client& client, const mesh::Mesh& mesh);

// The arguments of a program over the first `count` entries of a layout, and its batch.
std::vector<NamedType> arguments_of(const state::StateLayout& layout, size_t count, const TensorType& images);

}  // namespace tessera::train
