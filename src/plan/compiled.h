#pragma once
// What a compiler says of a step. It is kept in the cache of compiled programs (pjrt/cache.h), so that another plan of the same
// recipe does not compile: what is compiled for hardware that is not there can't be loaded, but its account can be read.

#include <chrono>
#include <optional>
#include <string>

#include "base/hash.h"
#include "base/system/seconds_since.h"
#include "pjrt/cache.h"
#include "pjrt/plugin/error.h"
#include "pjrt/program/hlo.h"
#include "pjrt/program_info.h"

namespace tessera::plan {

struct Compiled {
  pjrt::CompiledMemory memory;
  double seconds = 0;            // that compiling took
  bool kept = false;             // it was compiled earlier
  pjrt::HloModule program = {};  // as it will run on each device
};

// As a plugin gave it.
struct CompilerAccount {
  pjrt::CompiledMemory memory;
  double seconds = 0;
  std::string format, bytes;                    // of the optimised program (pjrt/program_info.h)
  std::optional<pjrt::PjrtError> refusal = {};  // the program needs more memory than a device has
};

// Nothing where there is no whole account under the key.
std::optional<CompilerAccount> find_account(const pjrt::ExecutableCache& cache, const Hash128& key);
void keep_account(const pjrt::ExecutableCache& cache, const Hash128& key, const CompilerAccount& account);
// Throws its refusal.
Compiled read_account(const CompilerAccount& account, bool kept);

// `compile` gives a program that has memory() and optimized_program(). It is called where the cache has nothing. `keep_refusals`: of
// programs for hardware that is not there, whose memory is always the same.
template <class Compile>
Compiled compile_once(const pjrt::ExecutableCache& cache, const Hash128& key, bool keep_refusals, const Compile& compile) {
  if (const auto found = find_account(cache, key)) return read_account(*found, true);
  const auto start = std::chrono::steady_clock::now();
  CompilerAccount account;
  try {
    const auto program = compile();
    account.seconds = seconds_since(start);
    account.memory = program.memory();
    account.bytes = program.optimized_program(&account.format);
  } catch (const pjrt::PjrtError& error) {
    if (!keep_refusals || !pjrt::is_out_of_memory(error)) throw;
    account.refusal = error;
  }
  keep_account(cache, key, account);
  return read_account(account, false);
}

}  // namespace tessera::plan
