#include "pjrt/buffer.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "pjrt/client.h"
#include "pjrt/plugin/call.h"

namespace tessera::pjrt {

Buffer::Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* buffer, TensorType type, size_t device)
    : client_(std::move(client)), buffer_(buffer), type_(std::move(type)), device_(device) {}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)),
      buffer_(std::exchange(other.buffer_, nullptr)),
      type_(std::exchange(other.type_, {})),
      device_(other.device_),
      name_(std::exchange(other.name_, {})),
      donated_to_(std::exchange(other.donated_to_, {})) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  client_ = std::move(other.client_);
  buffer_ = std::exchange(other.buffer_, nullptr);
  type_ = std::exchange(other.type_, {});
  device_ = other.device_;
  name_ = std::exchange(other.name_, {});
  donated_to_ = std::exchange(other.donated_to_, {});
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
  if (buffer_ != nullptr) PJRT(client_->plugin(), PJRT_Buffer_Destroy).quietly({.buffer = std::exchange(buffer_, nullptr)});
  client_.reset();
}

std::string Buffer::describe() const {
  return name_.empty() ? to_string(type_) : fmt::format("`{}` ({})", name_, to_string(type_));
}

PJRT_Buffer* Buffer::live(const std::string& use) const {
  TESSERA_CHECK(donated_to_.empty(), "{}: buffer {} was donated to program `{}`", use, describe(), donated_to_);
  TESSERA_CHECK(buffer_ != nullptr, "{}: the buffer is empty", use);
  return buffer_;
}

void Buffer::mark_donated(const std::string& program) {
  release();
  donated_to_ = program;
}

Event Buffer::to_host(void* destination, size_t size) const {
  PJRT_Buffer* source = live("read");
  TESSERA_CHECK(static_cast<int64_t>(size) == bytes(), "{} read into {} bytes", describe(), size);
  // Devices tile arrays as they like; the host's order is asked for by name.
  std::vector<int64_t> minor_to_major(type_.dims.size());
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  PJRT_Buffer_MemoryLayout layout{.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE};
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
                  .minor_to_major = minor_to_major.data(),
                  .minor_to_major_size = minor_to_major.size()};
  const Plugin& plugin = client_->plugin();
  const auto out =
      PJRT(plugin, PJRT_Buffer_ToHostBuffer)({.src = source, .host_layout = &layout, .dst = destination, .dst_size = size});
  return Event(plugin, out.event);
}

Event Buffer::ready_event() const {
  PJRT_Buffer* buffer = live("await");
  const Plugin& plugin = client_->plugin();
  return Event(plugin, PJRT(plugin, PJRT_Buffer_ReadyEvent)({.buffer = buffer}).event);
}

bool Buffer::ready() const { return ready_event().is_ready(); }

void Buffer::await() const { ready_event().await(); }

}  // namespace tessera::pjrt
