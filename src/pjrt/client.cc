#include "pjrt/client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/system/spans.h"
#include "base/text/text.h"
#include "pjrt/dtype.h"
#include "pjrt/executable.h"
#include "pjrt/large_temporaries.h"
#include "pjrt/plugin/call.h"
#include "pjrt/plugin/key_value_callbacks.h"
#include "pjrt/plugin/stderr_filter.h"
#include "pjrt/program/c_arguments.h"

namespace tessera::pjrt {
namespace {

// A process that is gone ends the others before.
constexpr std::chrono::hours kAnswerPatience{2};

PjrtError with_plugin_messages(const PjrtError& error, const std::string& messages) {
  return PjrtError(error.call(), error.status(), fmt::format("{}\nthe plugin's messages:\n{}", error.message(), trim(messages)),
                   error.where(), error.help());
}

// That the plugin counts processes as the run does, and that each has as many devices.
void check_group(const ClientGroup& group, const std::vector<Device>& devices, int64_t process) {
  if (process != group.process) {
    throw usage_error(
        fmt::format("the plugin says that this is process {}, and the run that it is process {}", process, group.process),
        "--process-id", "number the processes as the hosts of the slice are (TPU_WORKER_ID)");
  }
  std::vector<int64_t> of_process(static_cast<size_t>(group.processes));
  for (const Device& device : devices) {
    if (device.process >= 0 && device.process < group.processes) ++of_process[static_cast<size_t>(device.process)];
  }
  const bool equal = std::ranges::all_of(of_process, [&](int64_t count) { return count > 0 && count == of_process[0]; });
  if (equal && std::accumulate(of_process.begin(), of_process.end(), int64_t{0}) == static_cast<int64_t>(devices.size()))
    return;
  throw usage_error(
      fmt::format("all processes must have the same number of devices; they have {} of the {} that the plugin knows",
                  fmt::join(of_process, ", "), devices.size()),
      {}, "CUDA_VISIBLE_DEVICES says which GPUs a process uses");
}

}  // namespace

std::shared_ptr<Client> Client::create(std::shared_ptr<Plugin> plugin, const ClientOptions& options) {
  if (options.cpu_device_count < 1) {
    throw usage_error(fmt::format("{} devices asked for", options.cpu_device_count), "--devices", "ask for 1 or more");
  }
  std::shared_ptr<Client> client(new Client(plugin, options.group));
  client->create_handle(options.create_options);
  client->read_description();
  // Which platform a plugin is for is known only now. The CPU plugin makes a number of devices of its own choice unless told,
  // and no other plugin knows the option.
  if (client->platform_name_ == "cpu" && static_cast<int64_t>(client->devices_.size()) != options.cpu_device_count) {
    Options with_count = options.create_options;
    with_count["cpu_device_count"] = options.cpu_device_count;
    client.reset(new Client(std::move(plugin), options.group));
    client->create_handle(with_count);
    client->read_description();
  }
  return client;
}

void Client::create_handle(const Options& options) {
  const std::vector<PJRT_NamedValue> values = named_values(options);
  PJRT_Client_Create_Args args{.create_options = values.data(), .num_options = values.size()};
  if (group_.several()) give_callbacks(*group_.store, args);
  try {
    client_ = PJRT(*plugin_, PJRT_Client_Create)(args).client;
  } catch (const PjrtError& error) {
    // A driver that is missing or too old is explained on stderr, not in the error.
    const std::string messages = captured_stderr_since(plugin_->stderr_before(), 4 << 10);
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
  read_devices();
}

void Client::read_devices() {
  if (group_.several()) {
    const auto all = PJRT(*plugin_, PJRT_Client_Devices)({.client = client_});
    handles_.assign(all.devices, all.devices + all.num_devices);
  } else {
    const auto found = PJRT(*plugin_, PJRT_Client_AddressableDevices)({.client = client_});
    handles_.assign(found.addressable_devices, found.addressable_devices + found.num_addressable_devices);
  }
  const auto description_of = [&](PJRT_Device* handle) {
    return PJRT(*plugin_, PJRT_Device_GetDescription)({.device = handle}).device_description;
  };
  const auto process_of = [&](PJRT_Device* handle) -> int64_t {
    if (!group_.several()) return group_.process;
    return PJRT(*plugin_, PJRT_DeviceDescription_ProcessIndex)({.device_description = description_of(handle)}).process_index;
  };
  // Plugins list them otherwise: a TPU by their places in the slice.
  std::ranges::stable_sort(handles_, {}, process_of);
  for (PJRT_Device* handle : handles_) {
    auto* description = description_of(handle);
    const auto kind = PJRT(*plugin_, PJRT_DeviceDescription_Kind)({.device_description = description});
    const auto text = PJRT(*plugin_, PJRT_DeviceDescription_ToString)({.device_description = description});
    devices_.push_back({.id = PJRT(*plugin_, PJRT_DeviceDescription_Id)({.device_description = description}).id,
                        .process = process_of(handle),
                        .kind = std::string(kind.device_kind, kind.device_kind_size),
                        .description = std::string(text.to_string, text.to_string_size)});
    if (is_own(devices_.size() - 1)) own_devices_.push_back(devices_.size() - 1);
  }
  if (group_.several())
    check_group(group_, devices_, PJRT(*plugin_, PJRT_Client_ProcessIndex)({.client = client_}).process_index);
}

Client::Client(std::shared_ptr<Plugin> plugin, ClientGroup group)
    : plugin_(std::move(plugin)), group_(std::move(group)), large_temporaries_(std::make_unique<LargeTemporaries>()) {}

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

bool Client::all_say(const std::string& question, bool yes) const {
  if (!group_.several()) return yes;
  const int64_t time = [&] {
    const std::lock_guard lock(asked_mutex_);
    return asked_[question]++;
  }();
  const auto key = [&](int64_t process) { return fmt::format("said/{}/{}/{}", question, time, process); };
  group_.store->put(key(group_.process), yes ? "yes" : "no");
  for (int64_t process = 0; yes && process < group_.processes; ++process) {
    yes = group_.store->get(key(process), kAnswerPatience) == "yes";
  }
  return yes;
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
