#pragma once
// Waiting for programs that are compiled beside the loop. The console says what is waited for, and what came of it. The time is
// RunTimes::compile: no other Reporter::Timed may live meanwhile.

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "pjrt/cache.h"
#include "train/run/run.h"
#include "train/step/compile.h"

namespace tessera::train {

// False when a signal came first, unless it waits `to_the_end`.
template <class Future>
bool wait_for_program(Run& run, const Future& future, const std::string& name, bool to_the_end = false) {
  if (future.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return true;
  const Reporter::Timed timed(run.reporter, &state::RunTimes::compile);
  run.reporter.console().busy(fmt::format("compile  {} …", name));
  while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (!to_the_end && run.stop.requested()) return false;
  }
  return true;
}

void tell_compiled(Run& run, const std::string& name, const pjrt::CompileReport& report);

// A program on the devices, with the numbers that are its last arguments.
struct ReadyProgram {
  std::shared_ptr<const pjrt::Executable> executable;
  state::DeviceArrays numbers;
  pjrt::CompileReport report;
};
// Waits for it, whatever signal comes. Throws what the compilation threw.
ReadyProgram take_program(Run& run, std::future<Compiled>& future, const std::string& name);

}  // namespace tessera::train
