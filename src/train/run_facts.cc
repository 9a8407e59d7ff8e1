#include "train/run_facts.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process.h"

namespace tessera::train {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

std::optional<int64_t> read_number(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<int64_t>());
}

RunFacts from_json(const Json& json) {
  RunFacts facts;
  facts.state = json.at("state");
  facts.message = json.at("message");
  facts.command = json.at("command");
  facts.version = json.at("version");
  facts.platform = json.at("platform");
  facts.device_kind = json.at("device_kind");
  facts.plugin = json.at("plugin");
  facts.devices = json.at("devices");
  facts.parameters = json.at("parameters");
  facts.flops = json.at("flops");
  const Json& planned = json.at("planned");
  facts.planned = {planned.at("arguments"),   planned.at("outputs"),        planned.at("aliased"),
                   planned.at("temporaries"), planned.at("generated_code"), planned.at("peak")};
  facts.device_peak = read_number(json.at("device_peak"));
  facts.device_memory = read_number(json.at("device_memory"));
  facts.host_peak = json.at("host_peak");
  return facts;
}

}  // namespace

std::string to_json(const RunFacts& facts) {
  Json json = {{"state", facts.state},     {"message", facts.message},   {"command", facts.command},
               {"version", facts.version}, {"platform", facts.platform}, {"device_kind", facts.device_kind},
               {"plugin", facts.plugin},   {"devices", facts.devices},   {"parameters", facts.parameters},
               {"flops", facts.flops}};
  const pjrt::CompiledMemory& planned = facts.planned;
  json["planned"] = {{"arguments", planned.arguments},
                     {"outputs", planned.outputs},
                     {"aliased", planned.aliased},
                     {"temporaries", planned.temporaries},
                     {"generated_code", planned.generated_code},
                     {"peak", planned.peak}};
  json["device_peak"] = number_or_null(facts.device_peak);
  json["device_memory"] = number_or_null(facts.device_memory);
  json["host_peak"] = facts.host_peak;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

RunFacts parse_run_facts(std::string_view json, const std::string& where) {
  try {
    return from_json(parse_ordered_json(json, where));
  } catch (const nlohmann::json::exception& error) {
    throw data_error(fmt::format("run.json is not what this program writes: {}", error.what()), where);
  }
}

RunRecord::RunRecord(const Workdir& workdir, std::string command, std::string version) : workdir_(workdir) {
  facts_.command = std::move(command);
  facts_.version = std::move(version);
}

void RunRecord::started(const recipe::Recipe& recipe, const pjrt::Client& client, const pjrt::Executable& step) {
  const models::ModelCost cost = models::cost(*recipe.model);
  facts_.parameters = cost.parameters;
  facts_.flops = cost.flops;
  facts_.platform = client.platform_name();
  facts_.plugin = client.platform_version();
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
  if (const auto memory = client.memory(0)) {
    facts_.device_peak = memory->peak_in_use;
    facts_.device_memory = memory->limit;
  }
  facts_.host_peak = peak_resident_bytes();
  write();
}

void RunRecord::write() noexcept {
  try {
    workdir_.expect_in_place();
    store::write_atomic(store::local_files(), store::join_path(workdir_.path(), "run.json"), to_json(facts_));
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    if (!std::exchange(warned_, true))
      log_warning(fmt::format("no run.json was written: {}", known ? known->message() : error.what()));
  }
}

}  // namespace tessera::train
