#pragma once
// The devices of one plugin in this process.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "pjrt/buffer.h"
#include "pjrt/plugin/key_values.h"
#include "pjrt/plugin/plugin.h"
#include "pjrt/program/compile_options.h"
#include "pjrt/program/option_value.h"

struct PJRT_Client;
struct PJRT_Device;

namespace tessera::pjrt {

class Executable;
class LargeTemporaries;

// This process among those whose devices one client spans. The plugin has collectives between processes. The CUDA plugin gets the
// same numbers as its options `node_id` and `num_nodes`; libtpu reads them from its environment.
struct ClientGroup {
  int64_t process = 0, processes = 1;
  std::shared_ptr<KeyValues> store;  // null where there is one process

  bool several() const { return processes > 1; }
};

struct ClientOptions {
  int64_t cpu_device_count = 1;  // virtual devices of the CPU plugin; other platforms have what they have
  Options create_options;        // the plugin's own, by name: {"memory_fraction", 0.9}
  ClientGroup group;
};

struct Device {
  int64_t id = 0;           // unique among all processes; what CompileOptions::device_ids takes
  int64_t process = 0;      // whose it is; 0 where the client spans one process
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
  // Throws a device Error; the plugin's own messages are in it when they are captured (stderr_filter.h). All processes of a group
  // make theirs at the same time, and wait for each other in here.
  static std::shared_ptr<Client> create(std::shared_ptr<Plugin> plugin, const ClientOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Plugin& plugin() const { return *plugin_; }
  std::shared_ptr<const Plugin> shared_plugin() const { return plugin_; }
  const std::string& platform_name() const { return platform_name_; }  // "cpu", "cuda", "tpu"
  const std::string& platform_version() const { return platform_version_; }
  // The devices of all processes of the group, in the order of the processes, those of each side by side and as many of each.
  // Device arguments below are indices into this list.
  const std::vector<Device>& devices() const { return devices_; }
  const ClientGroup& group() const { return group_; }
  // Whether this process can use it: give it arrays, and get its results.
  bool is_own(size_t device) const { return devices_[device].process == group_.process; }
  // The places of those in devices().
  const std::vector<size_t>& own_devices() const { return own_devices_; }
  // Whether every process of the group calls this with the same question and `yes`. All must call it; waits for their answers.
  bool all_say(const std::string& question, bool yes) const;
  // Of a device of this process. Nothing where the plugin does not tell (the CPU plugin).
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
  Client(std::shared_ptr<Plugin> plugin, ClientGroup group);
  void create_handle(const Options& options);
  void read_description();
  void read_devices();
  Upload upload(const void* data, const TensorType& type, size_t device, int semantics) const;

  std::shared_ptr<Plugin> plugin_;
  const ClientGroup group_;
  PJRT_Client* client_ = nullptr;
  std::string platform_name_, platform_version_;
  std::vector<Device> devices_;
  std::vector<PJRT_Device*> handles_;
  std::vector<size_t> own_devices_;
  mutable std::mutex asked_mutex_;
  mutable std::map<std::string, int64_t> asked_;  // how often
  std::unique_ptr<LargeTemporaries> large_temporaries_;
};

}  // namespace tessera::pjrt
