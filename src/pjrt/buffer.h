#pragma once
// An array on one device.

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/shape.h"
#include "pjrt/event.h"

struct PJRT_Buffer;

namespace tessera::pjrt {

class Client;

// Move-only owner. A Buffer is in one of three states: empty (default, moved from), live, or donated: consumed by a program
// that reused its memory, after which reading it or passing it to a program is a bug of ours, reported with the buffer's name
// and the program's. It may still be being computed: reads wait for it, ready() and await() tell.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* buffer, TensorType type, size_t device);  // takes `buffer`
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  ~Buffer();

  const TensorType& type() const { return type_; }     // of this device's shard
  int64_t bytes() const { return byte_count(type_); }  // in host memory, dense and row-major
  size_t device() const { return device_; }            // index in Client::devices()
  bool empty() const { return buffer_ == nullptr && donated_to_.empty(); }
  bool donated() const { return !donated_to_.empty(); }

  // The name in messages ("params/head/kernel"); the type alone when never set.
  void set_name(std::string name) { name_ = std::move(name); }
  const std::string& name() const { return name_; }

  // Starts a copy to `destination`, dense and row-major. `size` must equal bytes(). The memory must stay until the Event is
  // done.
  [[nodiscard]] Event to_host(void* destination, size_t size) const;
  // Waits. T must have the size of the element (uint16_t for bf16 and f16, uint8_t for bool).
  template <class T>
  std::vector<T> to_host() const {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>, "read bool arrays as uint8_t");
    TESSERA_CHECK(static_cast<int64_t>(sizeof(T)) == element_bytes(type_.dtype), "{} read as elements of {} bytes", describe(),
                  sizeof(T));
    std::vector<T> values(static_cast<size_t>(element_count(type_.dims)));
    to_host(values.data(), values.size() * sizeof(T)).await();
    return values;
  }

  bool ready() const;  // computed, or failed
  void await() const;  // throws what the computation failed with
  // An event of its own for the same.
  Event ready_event() const;

  // `params/w` (f32[2, 3])
  std::string describe() const;

  // For Executable: the handle, after checking that this is live; `use` says for what ("argument 3 of main").
  PJRT_Buffer* live(const std::string& use) const;
  void mark_donated(const std::string& program);

 private:
  void release() noexcept;

  std::shared_ptr<const Client> client_;
  PJRT_Buffer* buffer_ = nullptr;
  TensorType type_;
  size_t device_ = 0;
  std::string name_;
  std::string donated_to_;
};

}  // namespace tessera::pjrt
