#pragma once
// <workdir>/run.json: with which command, program and devices a run was made, what its step was planned to take and took, and
// how the last start of it ended. For reports; a run goes on without it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pjrt/program_info.h"

namespace tessera::train {

// A save that held training up for so long.
struct LastSave {
  int64_t step = 0;
  double seconds = 0;
  double uptime = 0;  // of the run when it began, as its checkpoint has it, which tells it from other saves of the step
};

struct RunFacts {
  // running (or killed), done, stopped by a signal, a request or --until, diverged, failed.
  std::string state = "running";
  std::string message;                // the signal's name (or "a request", "--until"), why it failed, or why it was done early
  std::string command, version;       // of the program
  std::string platform, device_kind;  // "cpu", "NVIDIA H200"
  std::string plugin;                 // its file, the versions that it speaks, and its own words
  int64_t devices = 1;
  int64_t parameters = 0;
  double flops = 0;            // of products and convolutions, forward, of one example
  double compile_seconds = 0;  // until the last start had its training step: compiling, loading, waiting for another process
  bool compiled = false;       // it was compiled then, not loaded
  // The compiler's account of the training step, on one device: bytes.
  pjrt::CompiledMemory planned;
  // What the first device had in use at most, and has; nothing where the plugin does not tell.
  std::optional<int64_t> device_peak, device_memory;
  int64_t host_peak = 0;  // resident, of the process
  // The last one of a start that was stopped, which no line of metrics.jsonl tells of until the run goes on.
  std::optional<LastSave> last_save;
};

std::string to_json(const RunFacts& facts);
// Throws a data Error at `where` for what to_json() does not write.
RunFacts parse_run_facts(std::string_view json, const std::string& where);

}  // namespace tessera::train
