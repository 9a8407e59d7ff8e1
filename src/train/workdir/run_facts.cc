#include "train/workdir/run_facts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxWhole = int64_t{1} << 60;  // bytes, parameters, steps
constexpr double kMaxSeconds = 1e9;

Json number_or_null(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

int64_t whole(const Json& value) { return json_integer(value, 0, kMaxWhole); }
std::optional<int64_t> whole_or_null(const Json& value) { return value.is_null() ? std::nullopt : std::optional(whole(value)); }

LastSave read_last_save(const Json& json) {
  const double seconds = json.at("seconds"), uptime = json.at("uptime");
  for (const double time : {seconds, uptime}) {
    if (!(time >= 0 && time <= kMaxSeconds)) throw data_error(fmt::format("a save with a time of {} seconds", time));
  }
  return {whole(json.at("step")), seconds, uptime};
}

RunFacts facts_of(const Json& json) {
  RunFacts facts;
  facts.state = json.at("state");
  facts.message = json.at("message");
  facts.command = json.at("command");
  facts.version = json.at("version");
  facts.platform = json.at("platform");
  facts.device_kind = json.at("device_kind");
  facts.plugin = json.at("plugin");
  facts.devices = whole(json.at("devices"));
  facts.parameters = whole(json.at("parameters"));
  facts.flops = json.at("flops");
  if (const auto compile = json.find("compile"); compile != json.end()) {  // older versions don't say
    facts.compile_seconds = compile->at("seconds");
    facts.compiled = !compile->at("cached").get<bool>();
  }
  const Json& planned = json.at("planned");
  facts.planned = {whole(planned.at("arguments")),   whole(planned.at("outputs")),        whole(planned.at("aliased")),
                   whole(planned.at("temporaries")), whole(planned.at("generated_code")), whole(planned.at("peak"))};
  facts.device_peak = whole_or_null(json.at("device_peak"));
  facts.device_memory = whole_or_null(json.at("device_memory"));
  facts.host_peak = whole(json.at("host_peak"));
  if (const auto saved = json.find("last_save"); saved != json.end()) facts.last_save = read_last_save(*saved);
  return facts;
}

}  // namespace

std::string to_json(const RunFacts& facts) {
  Json json = {{"state", facts.state},     {"message", facts.message},   {"command", facts.command},
               {"version", facts.version}, {"platform", facts.platform}, {"device_kind", facts.device_kind},
               {"plugin", facts.plugin},   {"devices", facts.devices},   {"parameters", facts.parameters},
               {"flops", facts.flops}};
  json["compile"] = {{"seconds", facts.compile_seconds}, {"cached", !facts.compiled}};
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
  if (const auto& save = facts.last_save)
    json["last_save"] = {{"step", save->step}, {"seconds", save->seconds}, {"uptime", save->uptime}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

RunFacts parse_run_facts(std::string_view json, const std::string& where) {
  try {
    return facts_of(parse_ordered_json(json, where));
  } catch (const nlohmann::json::exception& error) {
    throw data_error(fmt::format("run.json is not what this program writes: {}", error.what()), where);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw data_error(fmt::format("run.json is not what this program writes: it holds {}", error.message()), where);
  }
}

}  // namespace tessera::train
