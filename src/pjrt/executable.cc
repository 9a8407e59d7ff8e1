#include "pjrt/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/system/large_blocks.h"
#include "base/system/spans.h"
#include "pjrt/client.h"
#include "pjrt/dtype.h"
#include "pjrt/large_temporaries.h"
#include "pjrt/plugin/call.h"
#include "pjrt/plugin/stderr_filter.h"

namespace tessera::pjrt {

Executable::Executable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* loaded, const CompileOptions& options)
    : client_(std::move(client)), loaded_(loaded), donated_(options.donated) {
  std::sort(donated_.begin(), donated_.end());
  try {
    read_description();
  } catch (...) {
    release();
    throw;
  }
}

Executable::Executable(Executable&& other) noexcept
    : client_(std::move(other.client_)),
      loaded_(std::exchange(other.loaded_, nullptr)),
      executable_(std::exchange(other.executable_, nullptr)),
      name_(std::move(other.name_)),
      output_types_(std::move(other.output_types_)),
      devices_(std::move(other.devices_)),
      donated_(std::move(other.donated_)),
      large_temporaries_(other.large_temporaries_) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  if (this == &other) return *this;
  release();
  client_ = std::move(other.client_);
  loaded_ = std::exchange(other.loaded_, nullptr);
  executable_ = std::exchange(other.executable_, nullptr);
  name_ = std::move(other.name_);
  output_types_ = std::move(other.output_types_);
  devices_ = std::move(other.devices_);
  donated_ = std::move(other.donated_);
  large_temporaries_ = other.large_temporaries_;
  return *this;
}

Executable::~Executable() { release(); }

void Executable::release() noexcept {
  if (executable_ != nullptr) {
    PJRT(client_->plugin(), PJRT_Executable_Destroy).quietly({.executable = std::exchange(executable_, nullptr)});
  }
  if (loaded_ != nullptr) {
    PJRT(client_->plugin(), PJRT_LoadedExecutable_Destroy).quietly({.executable = std::exchange(loaded_, nullptr)});
  }
  client_.reset();
}

void Executable::read_description() {
  const Plugin& plugin = client_->plugin();
  executable_ = PJRT(plugin, PJRT_LoadedExecutable_GetExecutable)({.loaded_executable = loaded_}).executable;
  const auto name = PJRT(plugin, PJRT_Executable_Name)({.executable = executable_});
  name_.assign(name.executable_name, name.executable_name_size);
  const auto types = PJRT(plugin, PJRT_Executable_OutputElementTypes)({.executable = executable_});
  const auto dims = PJRT(plugin, PJRT_Executable_OutputDimensions)({.executable = executable_});
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < types.num_output_types; ++i) {
    output_types_.push_back({dtype_from_pjrt(types.output_types[i]), Dims(next, next + dims.dim_sizes[i])});
    next += dims.dim_sizes[i];
  }
  const auto found = PJRT(plugin, PJRT_LoadedExecutable_AddressableDevices)({.executable = loaded_});
  for (size_t i = 0; i < found.num_addressable_devices; ++i) {
    devices_.push_back(client_->device_index(found.addressable_devices[i]));
  }
  if (client_->platform_name() != "cpu") return;
  if (const int64_t bytes = memory().temporaries; bytes > kLargeBlock) large_temporaries_ = bytes;
}

std::vector<std::vector<PJRT_Buffer*>> Executable::handles(std::span<const std::vector<Buffer*>> args) const {
  std::vector<std::vector<PJRT_Buffer*>> out(args.size());
  for (size_t d = 0; d < args.size(); ++d) {
    TESSERA_CHECK(args[d].size() == args[0].size(), "`{}`: {} arguments on device {}, {} on the first", name_, args[d].size(),
                  d, args[0].size());
    for (size_t i = 0; i < args[d].size(); ++i) {
      const Buffer* buffer = args[d][i];
      TESSERA_CHECK(buffer != nullptr, "argument {} of `{}` is null", i, name_);
      // The text is made only when there is something wrong: this runs for every argument of every step.
      const bool usable = !buffer->donated() && !buffer->empty();
      out[d].push_back(buffer->live(usable ? std::string() : fmt::format("argument {} of `{}`", i, name_)));
    }
  }
  return out;
}

void Executable::mark_donated(std::span<const std::vector<Buffer*>> args, bool ran) const {
  const Plugin& plugin = client_->plugin();
  for (const std::vector<Buffer*>& list : args) {
    for (const int64_t index : donated_) {
      Buffer* buffer = list[static_cast<size_t>(index)];
      // A call that was refused may have left its arguments whole.
      if (ran || PJRT(plugin, PJRT_Buffer_IsDeleted)({.buffer = buffer->live("donate")}).is_deleted)
        buffer->mark_donated(name_);
    }
  }
}

std::vector<std::vector<Buffer>> Executable::execute(std::span<const std::vector<Buffer*>> args) const {
  if (!client_->group().several() || args.size() == devices_.size()) return execute_own(args);
  TESSERA_CHECK(args.size() == client_->devices().size(), "`{}`: arguments for {} of {} devices", name_, args.size(),
                client_->devices().size());
  std::vector<std::vector<Buffer*>> own;
  for (const size_t device : devices_) own.push_back(args[device]);
  std::vector<std::vector<Buffer>> results(args.size()), of_own = execute_own(own);
  for (size_t d = 0; d < devices_.size(); ++d) results[devices_[d]] = std::move(of_own[d]);
  return results;
}

std::vector<std::vector<Buffer>> Executable::execute_own(std::span<const std::vector<Buffer*>> args) const {
  const Span span(SpanKind::kRuntime, "execute");
  TESSERA_CHECK(args.size() == devices_.size(), "`{}` runs on {} devices, got arguments for {}", name_, devices_.size(),
                args.size());
  const std::vector<std::vector<PJRT_Buffer*>> inputs = handles(args);
  const size_t num_args = inputs[0].size();
  TESSERA_CHECK(donated_.empty() || static_cast<size_t>(donated_.back()) < num_args, "`{}` donates argument {} of {}", name_,
                donated_.back(), num_args);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < static_cast<int64_t>(num_args); ++i) {
    if (!std::binary_search(donated_.begin(), donated_.end(), i)) kept.push_back(i);
  }
  std::vector<std::vector<PJRT_Buffer*>> outputs(args.size(), std::vector<PJRT_Buffer*>(num_outputs()));
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (size_t d = 0; d < args.size(); ++d) {
    input_lists.push_back(inputs[d].data());
    output_lists.push_back(outputs[d].data());
  }
  std::vector<PJRT_Event*> complete(large_temporaries_ > 0 ? args.size() : 0);
  if (large_temporaries_ > 0) client_->large_temporaries().before_run(name_, devices_);
  PJRT_ExecuteOptions options{.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE,
                              .non_donatable_input_indices = kept.data(),
                              .num_non_donatable_input_indices = kept.size()};
  try {
    PJRT(client_->plugin(), PJRT_LoadedExecutable_Execute)
    ({.executable = loaded_,
      .options = &options,
      .argument_lists = input_lists.data(),
      .num_devices = args.size(),
      .num_args = num_args,
      .output_lists = output_lists.data(),
      .device_complete_events = complete.empty() ? nullptr : complete.data()});
  } catch (...) {
    mark_donated(args, false);
    throw;
  }
  if (large_temporaries_ > 0) {
    std::vector<Event> events;
    for (PJRT_Event* event : complete) events.emplace_back(client_->plugin(), event);
    client_->large_temporaries().began(devices_, large_temporaries_ * static_cast<int64_t>(args.size()), std::move(events));
  }
  std::vector<std::vector<Buffer>> results(args.size());
  for (size_t d = 0; d < args.size(); ++d) {
    results[d].reserve(num_outputs());
    for (size_t j = 0; j < num_outputs(); ++j) results[d].emplace_back(client_, outputs[d][j], output_types_[j], devices_[d]);
  }
  mark_donated(args, true);
  trim_captured_stderr();
  return results;
}

std::vector<Buffer> Executable::run(std::span<Buffer* const> args) const {
  const std::vector<Buffer*> list(args.begin(), args.end());
  return std::move(execute({&list, 1})[0]);
}

CompiledMemory Executable::memory() const { return memory_of(client_->plugin(), executable_); }

std::string Executable::optimized_program(std::string* format) const {
  return optimized_program_of(client_->plugin(), executable_, format);
}

std::string Executable::serialize() const {
  const auto out = PJRT(client_->plugin(), PJRT_Executable_Serialize)({.executable = executable_});
  std::string bytes(out.serialized_bytes, out.serialized_bytes_size);
  out.serialized_executable_deleter(out.serialized_executable);
  return bytes;
}

}  // namespace tessera::pjrt
