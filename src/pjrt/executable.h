#pragma once
// A compiled program, loaded on its devices.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"
#include "pjrt/buffer.h"
#include "pjrt/program/compile_options.h"
#include "pjrt/program_info.h"

struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace tessera::pjrt {

class Client;

// Move-only. May be run from several threads as long as no donated buffer is shared between the calls.
class Executable {
 public:
  Executable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* loaded,
             const CompileOptions& options);  // takes `loaded`
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  const std::string& name() const { return name_; }
  size_t num_outputs() const { return output_types_.size(); }
  // The devices of this process that it runs on, as indices into Client::devices().
  const std::vector<size_t>& devices() const { return devices_; }

  // Runs on all its devices: args[d][i] is argument i on devices()[d], the result [d][j] output j there. Of a program over
  // several processes, whose devices are all of Client::devices(), args[d] and results[d] are of the device at place d there;
  // those of other processes are empty, and all processes run the same programs in the same order. Returns before the work is
  // done; an error of the work comes out of the outputs (await, to_host). Arguments listed as donated are unreadable afterwards.
  std::vector<std::vector<Buffer>> execute(std::span<const std::vector<Buffer*>> args) const;
  // The same for a program on one device.
  std::vector<Buffer> run(std::span<Buffer* const> args) const;

  // As program_info.h says.
  CompiledMemory memory() const;
  std::string optimized_program(std::string* format = nullptr) const;
  // For Client::deserialize.
  std::string serialize() const;

 private:
  void read_description();
  std::vector<std::vector<Buffer>> execute_own(std::span<const std::vector<Buffer*>> args) const;
  std::vector<std::vector<PJRT_Buffer*>> handles(std::span<const std::vector<Buffer*>> args) const;
  void mark_donated(std::span<const std::vector<Buffer*>> args, bool ran) const;
  void release() noexcept;

  std::shared_ptr<const Client> client_;
  PJRT_LoadedExecutable* loaded_ = nullptr;
  PJRT_Executable* executable_ = nullptr;
  std::string name_;
  std::vector<TensorType> output_types_;  // of one device's shard each, as the program's results are listed
  std::vector<size_t> devices_;
  std::vector<int64_t> donated_;   // sorted
  int64_t large_temporaries_ = 0;  // bytes on a device, where they are more than kLargeBlock (base/system/large_blocks.h)
};

}  // namespace tessera::pjrt
