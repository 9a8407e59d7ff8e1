#pragma once
// The devices of one plugin in this process.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "pjrt/buffer.h"
#include "pjrt/plugin/plugin.h"
#include "pjrt/program/compile_options.h"
#include "pjrt/program/option_value.h"

struct PJRT_Client;
struct PJRT_Device;

namespace tessera::pjrt {

class Executable;
class LargeTemporaries;

struct ClientOptions {
  int64_t cpu_device_count = 1;  // virtual devices of the CPU plugin; other platforms have what they have
  Options create_options;        // the plugin's own, by name: {"memory_fraction", 0.9}
};

struct Device {
  int64_t id = 0;           // unique among all processes; what CompileOptions::device_ids takes
  std::string kind;         // "cpu", "NVIDIA H200", "TPU v5 lite"
  std::string description;  // the plugin's own words
};

// Bytes. What the plugin does not tell is empty.
struct DeviceMemory {
  int64_t in_use = 0;
  std::optional<int64_t> peak_in_use;
  std::optional<int64_t> limit;
};

// A copy to a device in the background. The memory it is made from must stay, unchanged, until done_with_host is done.
struct Upload {
  Buffer buffer;
  Event done_with_host;
};

// Buffers and executables keep the client alive. All functions may be called from any thread.
class Client : public std::enable_shared_from_this<Client> {
 public:
  // Throws a device Error; the plugin's own messages are in it when they are captured (stderr_filter.h).
  static std::shared_ptr<Client> create(std::shared_ptr<Plugin> plugin, const ClientOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Plugin& plugin() const { return *plugin_; }
  std::shared_ptr<const Plugin> shared_plugin() const { return plugin_; }
  const std::string& platform_name() const { return platform_name_; }  // "cpu", "cuda", "tpu"
  const std::string& platform_version() const { return platform_version_; }
  // The devices this process can use. Device arguments below are indices into this list.
  const std::vector<Device>& devices() const { return devices_; }
  // Nothing where the plugin does not tell (the CPU plugin).
  std::optional<DeviceMemory> memory(size_t device) const;

  // Copies `data` (dense, row-major, byte_count(type) bytes), which may be changed or freed when the call returns.
  Buffer to_device(const void* data, const TensorType& type, size_t device = 0) const;
  // The same in the background: see Upload.
  [[nodiscard]] Upload to_device_async(const void* data, const TensorType& type, size_t device = 0) const;

  // Compiles StableHLO text and loads it. Errors carry the plugin's message.
  Executable compile(std::string_view stablehlo, const CompileOptions& options = {}) const;
  // Loads what Executable::serialize gave, on the same plugin, kind of device and options.
  Executable deserialize(std::string_view serialized, const CompileOptions& options = {}) const;

  // Of programs that run on this client's devices.
  LargeTemporaries& large_temporaries() const { return *large_temporaries_; }
  PJRT_Client* handle() const { return client_; }
  PJRT_Device* device_handle(size_t device) const;
  // The index of a handle in devices().
  size_t device_index(const PJRT_Device* device) const;

 private:
  explicit Client(std::shared_ptr<Plugin> plugin);
  void create_handle(const Options& options);
  void read_description();
  Upload upload(const void* data, const TensorType& type, size_t device, int semantics) const;

  std::shared_ptr<Plugin> plugin_;
  PJRT_Client* client_ = nullptr;
  std::string platform_name_, platform_version_;
  std::vector<Device> devices_;
  std::vector<PJRT_Device*> handles_;
  std::unique_ptr<LargeTemporaries> large_temporaries_;
};

}  // namespace tessera::pjrt
