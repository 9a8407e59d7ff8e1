#pragma once
// Devices that need not be there: a plugin's description of some hardware, and programs compiled for it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/plugin/plugin.h"
#include "pjrt/program/compile_options.h"
#include "pjrt/program/option_value.h"
#include "pjrt/program_info.h"

struct PJRT_TopologyDescription;

namespace tessera::pjrt {

// A program compiled for a topology. It can't be run. Move-only.
class CompiledProgram {
 public:
  CompiledProgram(std::shared_ptr<const Plugin> plugin, PJRT_Executable* executable);  // takes `executable`
  CompiledProgram(CompiledProgram&&) noexcept;
  CompiledProgram& operator=(CompiledProgram&&) = delete;
  ~CompiledProgram();

  // As program_info.h says.
  CompiledMemory memory() const { return memory_of(*plugin_, executable_); }
  std::string optimized_program(std::string* format = nullptr) const {
    return optimized_program_of(*plugin_, executable_, format);
  }

 private:
  std::shared_ptr<const Plugin> plugin_;
  PJRT_Executable* executable_;
};

// Move-only.
class Topology {
 public:
  // `name` and `options` are the plugin's own: "v5e:16x16" and {"num_slices", 4} of libtpu. Throws a PjrtError.
  Topology(std::shared_ptr<const Plugin> plugin, const std::string& name, const Options& options = {});
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  ~Topology();

  // Their ids, in the plugin's order, and what kind they all are.
  const std::vector<int64_t>& device_ids() const { return device_ids_; }
  const std::string& device_kind() const { return device_kind_; }

  CompiledProgram compile(std::string_view stablehlo, const CompileOptions& options) const;

 private:
  std::shared_ptr<const Plugin> plugin_;
  PJRT_TopologyDescription* topology_ = nullptr;
  std::vector<int64_t> device_ids_;
  std::string device_kind_;
};

}  // namespace tessera::pjrt
