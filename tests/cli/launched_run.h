#pragma once
// Runs of several processes as their tests look at them.

#include <chrono>
#include <string>
#include <thread>

#include "cli/run_program.h"

namespace tessera::cli {

// Of a checkpoint, by its step's last digits.
inline std::string weights_of(const fs::path& workdir, const std::string& step) {
  return read_file(workdir / ("checkpoints/step_" + std::string(9 - step.size(), '0') + step) / "state.safetensors");
}

// Waits until the run has a line of that step.
inline void await_step(RunningProgram& run, const fs::path& workdir, int step) {
  const std::string wanted = "\"step\":" + std::to_string(step) + ",";
  while (run.running() && read_file(workdir / "metrics.jsonl").find(wanted) == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace tessera::cli
