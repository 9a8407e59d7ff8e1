#pragma once
// A compiled program, loaded on its devices.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"
#include "pjrt/buffer.h"
#include "pjrt/compile_options.h"

struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace tessera::pjrt {

class Client;

// The compiler's account of one device's memory, in bytes.
struct CompiledMemory {
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliased = 0;  // outputs that reuse an argument's memory, counted in both of the above
  int64_t temporaries = 0;
  int64_t generated_code = 0;
  int64_t peak = 0;  // what must be free at the worst moment, arguments included; 0 where the plugin does not tell
};

// Move-only. May be run from several threads as long as no donated buffer is shared between the calls.
class Executable {
 public:
  Executable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* loaded,
             const CompileOptions& options);  // takes `loaded`
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  const std::string& name() const { return name_; }
  // Of one device's shard each, as the program's results are listed.
  const std::vector<TensorType>& output_types() const { return output_types_; }
  size_t num_outputs() const { return output_types_.size(); }
  // The devices it runs on, as indices into Client::devices(): the order of the argument lists.
  const std::vector<size_t>& devices() const { return devices_; }

  // Runs on all its devices: args[d][i] is argument i on devices()[d], the result [d][j] output j there. Returns before the
  // work is done; an error of the work comes out of the outputs (await, to_host). Arguments listed as donated are unreadable
  // afterwards.
  std::vector<std::vector<Buffer>> execute(std::span<const std::vector<Buffer*>> args) const;
  // The same for a program on one device.
  std::vector<Buffer> run(std::span<Buffer* const> args) const;

  CompiledMemory memory() const;
  // XLA's cost model, one device: "flops", "bytes accessed", … Empty where the plugin has none. "optimal_seconds" is left out:
  // it is wrong where a loop's trip count is unknown to the model.
  std::map<std::string, double> cost() const;
  // For Client::deserialize.
  std::string serialize() const;

 private:
  void read_description();
  std::vector<std::vector<PJRT_Buffer*>> handles(std::span<const std::vector<Buffer*>> args) const;
  void mark_donated(std::span<const std::vector<Buffer*>> args, bool ran) const;
  void release() noexcept;

  std::shared_ptr<const Client> client_;
  PJRT_LoadedExecutable* loaded_ = nullptr;
  PJRT_Executable* executable_ = nullptr;
  std::string name_;
  std::vector<TensorType> output_types_;
  std::vector<size_t> devices_;
  std::vector<int64_t> donated_;  // sorted
};

}  // namespace tessera::pjrt
