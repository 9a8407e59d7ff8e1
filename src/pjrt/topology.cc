#include "pjrt/topology.h"

#include <utility>

#include "pjrt/plugin/call.h"
#include "pjrt/plugin/stderr_filter.h"
#include "pjrt/program/c_arguments.h"

namespace tessera::pjrt {

CompiledProgram::CompiledProgram(std::shared_ptr<const Plugin> plugin, PJRT_Executable* executable)
    : plugin_(std::move(plugin)), executable_(executable) {}

CompiledProgram::CompiledProgram(CompiledProgram&& other) noexcept
    : plugin_(std::move(other.plugin_)), executable_(std::exchange(other.executable_, nullptr)) {}

CompiledProgram::~CompiledProgram() {
  if (executable_ != nullptr) PJRT(*plugin_, PJRT_Executable_Destroy).quietly({.executable = executable_});
}

Topology::Topology(std::shared_ptr<const Plugin> plugin, const std::string& name, const Options& options)
    : plugin_(std::move(plugin)) {
  const std::vector<PJRT_NamedValue> values = named_values(options);
  topology_ = PJRT(*plugin_, PJRT_TopologyDescription_Create)({.topology_name = name.data(),
                                                               .topology_name_size = name.size(),
                                                               .create_options = values.data(),
                                                               .num_options = values.size()})
                  .topology;
  const auto found = PJRT(*plugin_, PJRT_TopologyDescription_GetDeviceDescriptions)({.topology = topology_});
  for (size_t i = 0; i < found.num_descriptions; ++i) {
    PJRT_DeviceDescription* description = found.descriptions[i];
    device_ids_.push_back(PJRT(*plugin_, PJRT_DeviceDescription_Id)({.device_description = description}).id);
    if (i > 0) continue;
    const auto kind = PJRT(*plugin_, PJRT_DeviceDescription_Kind)({.device_description = description});
    device_kind_.assign(kind.device_kind, kind.device_kind_size);
  }
  trim_captured_stderr();
}

Topology::~Topology() {
  if (topology_ != nullptr) PJRT(*plugin_, PJRT_TopologyDescription_Destroy).quietly({.topology = topology_});
}

CompiledProgram Topology::compile(std::string_view stablehlo, const CompileOptions& options) const {
  const std::string proto = compile_options_proto(options);
  const PJRT_Program program = mlir_program(stablehlo);
  const auto out = PJRT(*plugin_, PJRT_Compile)(
      {.topology = topology_, .program = &program, .compile_options = proto.data(), .compile_options_size = proto.size()});
  trim_captured_stderr();
  return CompiledProgram(plugin_, out.executable);
}

}  // namespace tessera::pjrt
