#pragma once
// Compiled programs on disk, so that the second start of a run does not compile.
//
// A file `<key>.exe` holds one program, little-endian:
//   bytes  0..7   "TSRXEXE" and the format version (one byte)
//   bytes  8..23  the key (128 bits)
//   bytes 24..31  size of the payload
//   bytes 32..63  HMAC-SHA256 of bytes 0..31 and the payload under this user's key (store/local/private_directory.h)
//   bytes 64..    the payload, as Executable::serialize gave it, or what a plan keeps (plan/compiled.h)
// A file that is anything else (cut short, damaged, another version's, program's or writer's) is a miss and is replaced. The
// payload is machine code, so that the cache is used only where it is this user's alone: the directory and the entry belong to
// this user, nobody else may write to them, and the seal fits. A directory where that is not so is left as it is, a note says
// why, and every program is compiled.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "pjrt/executable.h"
#include "pjrt/program/compile_options.h"

namespace tessera::pjrt {

class Client;
class Plugin;

class ExecutableCache {
 public:
  // An empty directory is a cache that is off: it finds nothing and keeps nothing.
  explicit ExecutableCache(std::string directory, int64_t max_bytes = int64_t{4} << 30);
  // In store::cache_directory().
  static ExecutableCache standard();

  bool enabled() const { return !directory_.empty(); }
  const std::string& directory() const { return directory_; }
  std::string path(const Hash128& key) const;

  // The payload and "", or nothing and why ("not there", "damaged", …). Marks the entry as used.
  struct Found {
    std::optional<std::string> payload;
    std::string reason;
  };
  Found find(const Hash128& key) const;
  // Writes the entry whole or not at all, then removes the least recently used ones until all fit in max_bytes (this one
  // stays). Returns "" or why it could not be kept: a cache that can't be written is no reason to stop.
  std::string keep(const Hash128& key, std::string_view payload) const;
  void remove(const Hash128& key) const;
  // Held by who compiles for the key, so that processes which start together compile a program once: the others wait here, and
  // then find it. Null where the cache is off or waiting was in vain.
  std::shared_ptr<const void> await_turn(const Hash128& key, bool& waited) const;

 private:
  std::string directory_;
  int64_t max_bytes_;
};

// What became of a compile_cached call.
struct CompileReport {
  bool cached = false;
  double seconds = 0;    // compiling, or loading from the cache, and waiting for a process that compiles the same
  std::string reason;    // why it was compiled: "not there", "damaged: …", "the cache is off"
  std::string not_kept;  // why the result was not kept; "" when it was, or was there already
};

// What an entry is found by: program text, options, plugin build, platform, kinds and number of devices, XLA's environment
// variables, and, on CPU, the processor's model and features and the number of cores, since the payload is machine code for
// them.
Hash128 cache_key(const Client& client, std::string_view stablehlo, const CompileOptions& options);

// The same of a program that is compiled to be looked at, for the devices that `target` describes: some that need not be there.
Hash128 plan_key(const Plugin& plugin, std::string_view target, std::string_view stablehlo, const CompileOptions& options);

// Client::compile through the cache. An entry that the plugin refuses to load is compiled afresh. Programs for several CPU devices
// are kept with their collectives in order (collective_order.h). Of a group either all processes have the program in their caches,
// or all compile it, at the same time: while XLA tries which of several kernels is faster, each process tries some for all.
Executable compile_cached(const Client& client, std::string_view stablehlo, const CompileOptions& options,
                          const ExecutableCache& cache, CompileReport* report = nullptr);

}  // namespace tessera::pjrt
