#include "pjrt/client.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/system/spans.h"
#include "pjrt/dtype.h"
#include "pjrt/executable.h"
#include "pjrt/large_temporaries.h"
#include "pjrt/plugin/call.h"
#include "pjrt/plugin/stderr_filter.h"
#include "pjrt/program/c_arguments.h"

namespace tessera::pjrt {
namespace {

PjrtError with_plugin_messages(const PjrtError& error, const std::string& messages) {
  return PjrtError(error.call(), error.status(), fmt::format("{}\nthe plugin's messages:\n{}", error.message(), messages),
                   error.where(), error.help());
}

}  // namespace

std::shared_ptr<Client> Client::create(std::shared_ptr<Plugin> plugin, const ClientOptions& options) {
  if (options.cpu_device_count < 1) {
    throw usage_error(fmt::format("{} devices asked for", options.cpu_device_count), "--devices", "ask for 1 or more");
  }
  std::shared_ptr<Client> client(new Client(plugin));
  client->create_handle(options.create_options);
  client->read_description();
  // Which platform a plugin is for is known only now. The CPU plugin makes a number of devices of its own choice unless told,
  // and no other plugin knows the option.
  if (client->platform_name_ == "cpu" && static_cast<int64_t>(client->devices_.size()) != options.cpu_device_count) {
    Options with_count = options.create_options;
    with_count["cpu_device_count"] = options.cpu_device_count;
    client.reset(new Client(std::move(plugin)));
    client->create_handle(with_count);
    client->read_description();
  }
  return client;
}

void Client::create_handle(const Options& options) {
  const std::vector<PJRT_NamedValue> values = named_values(options);
  try {
    client_ = PJRT(*plugin_, PJRT_Client_Create)({.create_options = values.data(), .num_options = values.size()}).client;
  } catch (const PjrtError& error) {
    // A driver that is missing or too old is explained on stderr, not in the error.
    const std::string messages = captured_stderr(4 << 10);
    if (messages.empty()) throw;
    throw with_plugin_messages(error, messages);
  }
  trim_captured_stderr();
}

void Client::read_description() {
  const auto name = PJRT(*plugin_, PJRT_Client_PlatformName)({.client = client_});
  platform_name_.assign(name.platform_name, name.platform_name_size);
  const auto version = PJRT(*plugin_, PJRT_Client_PlatformVersion)({.client = client_});
  platform_version_.assign(version.platform_version, version.platform_version_size);
  const auto found = PJRT(*plugin_, PJRT_Client_AddressableDevices)({.client = client_});
  handles_.assign(found.addressable_devices, found.addressable_devices + found.num_addressable_devices);
  for (PJRT_Device* handle : handles_) {
    auto* description = PJRT(*plugin_, PJRT_Device_GetDescription)({.device = handle}).device_description;
    const auto kind = PJRT(*plugin_, PJRT_DeviceDescription_Kind)({.device_description = description});
    const auto text = PJRT(*plugin_, PJRT_DeviceDescription_ToString)({.device_description = description});
    devices_.push_back({.id = PJRT(*plugin_, PJRT_DeviceDescription_Id)({.device_description = description}).id,
                        .kind = std::string(kind.device_kind, kind.device_kind_size),
                        .description = std::string(text.to_string, text.to_string_size)});
  }
}

Client::Client(std::shared_ptr<Plugin> plugin)
    : plugin_(std::move(plugin)), large_temporaries_(std::make_unique<LargeTemporaries>()) {}

Client::~Client() {
  large_temporaries_.reset();
  if (client_ != nullptr) PJRT(*plugin_, PJRT_Client_Destroy).quietly({.client = client_});
}

PJRT_Device* Client::device_handle(size_t device) const {
  TESSERA_CHECK(device < handles_.size(), "device {} of {}", device, handles_.size());
  return handles_[device];
}

size_t Client::device_index(const PJRT_Device* device) const {
  for (size_t i = 0; i < handles_.size(); ++i) {
    if (handles_[i] == device) return i;
  }
  TESSERA_CHECK(false, "the plugin named a device that is not this process's");
}

std::optional<DeviceMemory> Client::memory(size_t device) const {
  const auto out = PJRT(*plugin_, PJRT_Device_MemoryStats).if_supported({.device = device_handle(device)});
  if (!out) return std::nullopt;
  DeviceMemory memory{.in_use = out->bytes_in_use};
  if (out->peak_bytes_in_use_is_set) memory.peak_in_use = out->peak_bytes_in_use;
  if (out->bytes_limit_is_set) memory.limit = out->bytes_limit;
  return memory;
}

Upload Client::upload(const void* data, const TensorType& type, size_t device, int semantics) const {
  const Span span(SpanKind::kRuntime, "copy to device");
  const auto out = PJRT(
      *plugin_, PJRT_Client_BufferFromHostBuffer)({.client = client_,
                                                   .data = data,
                                                   .type = static_cast<PJRT_Buffer_Type>(pjrt_type(type.dtype)),
                                                   .dims = type.dims.data(),
                                                   .num_dims = type.dims.size(),
                                                   .host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(semantics),
                                                   .device = device_handle(device)});
  return {Buffer(shared_from_this(), out.buffer, type, device), Event(*plugin_, out.done_with_host_buffer)};
}

Buffer Client::to_device(const void* data, const TensorType& type, size_t device) const {
  return std::move(upload(data, type, device, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall).buffer);
}

Upload Client::to_device_async(const void* data, const TensorType& type, size_t device) const {
  return upload(data, type, device, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
}

Executable Client::compile(std::string_view stablehlo, const CompileOptions& options) const {
  const std::string proto = compile_options_proto(options);
  const PJRT_Program program = mlir_program(stablehlo);
  const auto out = PJRT(*plugin_, PJRT_Client_Compile)(
      {.client = client_, .program = &program, .compile_options = proto.data(), .compile_options_size = proto.size()});
  trim_captured_stderr();
  return Executable(shared_from_this(), out.executable, options);
}

Executable Client::deserialize(std::string_view serialized, const CompileOptions& options) const {
  const auto out = PJRT(*plugin_, PJRT_Executable_DeserializeAndLoad)(
      {.client = client_, .serialized_executable = serialized.data(), .serialized_executable_size = serialized.size()});
  trim_captured_stderr();
  return Executable(shared_from_this(), out.loaded_executable, options);
}

}  // namespace tessera::pjrt
