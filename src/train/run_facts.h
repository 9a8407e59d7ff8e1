#pragma once
// <workdir>/run.json: with which command, program and devices a run was made, what its step was planned to take and took, and
// how the last start of it ended. For reports; a run goes on without it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "recipe/recipe.h"
#include "train/workdir.h"

namespace tessera::train {

struct RunFacts {
  // running (or killed), done, stopped by a signal, diverged, failed.
  std::string state = "running";
  std::string message;                        // the signal's name, or why it failed
  std::string command, version;               // of the program
  std::string platform, device_kind, plugin;  // "cpu", "NVIDIA H200", the plugin's own words
  int64_t devices = 1;
  int64_t parameters = 0;
  double flops = 0;  // of products and convolutions, forward, of one example
  // The compiler's account of the training step, on one device: bytes.
  pjrt::CompiledMemory planned;
  // What the first device had in use at most, and has; nothing where the plugin does not tell.
  std::optional<int64_t> device_peak, device_memory;
  int64_t host_peak = 0;  // resident, of the process
};

std::string to_json(const RunFacts& facts);
// Throws a data Error at `where` for what to_json() does not write.
RunFacts parse_run_facts(std::string_view json, const std::string& where);

// Keeps the file of a run. Nothing fails where it can't be written: a warning says so, once.
class RunRecord {
 public:
  // `workdir` is borrowed.
  RunRecord(const Workdir& workdir, std::string command, std::string version);

  // The run is about to train. Nothing is written before.
  void started(const recipe::Recipe& recipe, const pjrt::Client& client, const pjrt::Executable& step);
  // It ended; `state` as in RunFacts.
  void ended(std::string state, std::string message, const pjrt::Client& client);

 private:
  void write() noexcept;

  const Workdir& workdir_;
  RunFacts facts_;
  bool started_ = false, warned_ = false;
};

}  // namespace tessera::train
