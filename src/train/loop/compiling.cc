#include "train/loop/compiling.h"

#include <utility>

namespace tessera::train {

void tell_compiled(Run& run, const std::string& name, const pjrt::CompileReport& report) {
  run.reporter.console().phase("compile", name, report.seconds, report.cached ? "cached" : report.reason);
}

ReadyProgram take_program(Run& run, std::future<Compiled>& future, const std::string& name) {
  wait_for_program(run, future, name, /*to_the_end=*/true);
  Compiled compiled = future.get();
  state::DeviceArrays numbers = place_numbers(compiled.numbers, *run.client, run.layout.mesh);
  tell_compiled(run, name, compiled.report);
  return {std::make_shared<const pjrt::Executable>(std::move(compiled.executable)), std::move(numbers), compiled.report};
}

}  // namespace tessera::train
