#include "train/workdir/run_record.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/system/process.h"
#include "store/small_file.h"

namespace tessera::train {

RunRecord::RunRecord(const Workdir& workdir, std::string command, std::string version) : workdir_(workdir) {
  facts_.command = std::move(command);
  facts_.version = std::move(version);
}

double RunRecord::take_up_save(double uptime) {
  try {
    if (store::local_files().info(path())) {
      facts_.last_save = parse_run_facts(store::read_small_file(store::local_files(), path()), path()).last_save;
    }
  } catch (const Error&) {
    // The run goes on without it.
  }
  return facts_.last_save && facts_.last_save->uptime == uptime ? facts_.last_save->seconds : 0;
}

void RunRecord::started(const recipe::Recipe& recipe, const pjrt::Client& client, const pjrt::Executable& step,
                        const pjrt::CompileReport& report) {
  facts_.compile_seconds = report.seconds;
  facts_.compiled = !report.cached;
  const models::ModelCost cost = models::cost(*recipe.model);
  facts_.parameters = cost.parameters;
  facts_.flops = cost.flops;
  facts_.platform = client.platform_name();
  facts_.plugin = client.shared_plugin()->version_line();
  // Some call themselves by the platform alone.
  if (client.platform_version() != client.platform_name()) facts_.plugin += "; " + client.platform_version();
  facts_.device_kind = client.devices().front().kind;
  facts_.devices = recipe.mesh.devices();
  try {
    facts_.planned = step.memory();
  } catch (const Error&) {
    // The plugin has no account of it.
  }
  started_ = true;
  write();
}

void RunRecord::ended(std::string state, std::string message, const pjrt::Client& client) {
  if (!started_) return;
  facts_.state = std::move(state);
  facts_.message = std::move(message);
  if (const auto memory = client.memory(client.own_devices().front())) {
    facts_.device_peak = memory->peak_in_use;
    facts_.device_memory = memory->limit;
  }
  facts_.host_peak = peak_resident_bytes();
  write();
}

std::string RunRecord::path() const { return store::join_path(workdir_.path(), "run.json"); }

void RunRecord::write() noexcept {
  try {
    workdir_.expect_in_place();
    store::write_atomic(store::local_files(), path(), to_json(facts_));
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    if (!std::exchange(warned_, true))
      log_warning(fmt::format("no run.json was written: {}", known ? known->message() : error.what()));
  }
}

}  // namespace tessera::train
