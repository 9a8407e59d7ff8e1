#include "monitor/process_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/median.h"
#include "base/text/json.h"

namespace tessera::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kGreatestProcess = int64_t{1} << 32, kGreatestStep = int64_t{1} << 60;
constexpr double kSilentIntervals = 3;

// Four digits say enough, and each byte of a value stays in the coordinator's history.
// std::stod would throw at the ends of the type.
double rounded(double value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

Json json_of(const ProcessFigures& figures) {
  Json json = {{"process", figures.process}, {"host", figures.host}, {"step", figures.step}};
  for (const auto& [name, value] : figures.numbers()) {
    if (!value) continue;
    if (const double shown = rounded(*value); std::isfinite(shown)) json[name] = shown;
  }
  if (!figures.hangs.empty()) json["hangs"] = figures.hangs;
  return json;
}

ProcessFigures figures_of(const Json& json) {
  ProcessFigures figures;
  figures.process = json_integer(json.at("process"), 0, kGreatestProcess);
  figures.host = json.at("host");
  figures.step = json_integer(json.at("step"), 0, kGreatestStep);
  figures.seen = json.value("seen", 0.0);
  figures.hangs = json.value("hangs", std::string());
  const auto take = [&](const char* name, std::optional<double>& value) {
    if (const auto found = json.find(name); found != json.end()) value = found->get<double>();
  };
  take("input_wait", figures.input_wait);
  take("peer_wait", figures.peer_wait);
  take("step_seconds", figures.step_seconds);
  take("cpu_used", figures.cpu_used);
  take("cpu_process", figures.cpu_process);
  take("read", figures.read);
  take("written", figures.written);
  take("memory_used", figures.memory_used);
  take("memory_total", figures.memory_total);
  take("resident", figures.resident);
  take("device_in_use", figures.device_in_use);
  take("device_peak", figures.device_peak);
  return figures;
}

// What `read` makes of the text. Throws a data Error at `where`.
template <class Read>
auto parsed(std::string_view text, const std::string& where, Read&& read) {
  const auto odd = [&](const std::string& why) {
    return data_error(fmt::format("`{}` holds no figures of processes: {}", where, why), where);
  };
  try {
    return read(parse_ordered_json(text, where));
  } catch (const Json::exception& error) {
    throw odd(error.what());
  } catch (const Error& error) {
    throw odd(error.message());
  }
}

std::string name_of(int64_t process, const std::string& host) {
  return host.empty() ? fmt::format("process {}", process) : fmt::format("process {} on {}", process, host);
}

std::optional<SlowestProcess> slowest_by(Wait wait, const std::vector<ProcessFigures>& processes) {
  std::optional<SlowestProcess> slowest;
  std::vector<double> others;
  for (const ProcessFigures& one : processes) {
    const std::optional<double> share = wait == Wait::kInput ? one.input_wait : one.peer_wait;
    if (!share || !std::isfinite(*share)) continue;
    const bool slower = slowest && (wait == Wait::kInput ? *share > slowest->its : *share < slowest->its);
    if (slowest) others.push_back(slower ? slowest->its : *share);
    if (!slowest || slower) slowest = SlowestProcess{one.process, one.host, *share, 0, wait};
  }
  if (others.empty()) return std::nullopt;
  slowest->others = upper_median(std::move(others));
  return slowest;
}

}  // namespace

std::vector<std::string> hanging_processes(const HostFigures& figures) {
  std::vector<std::string> hanging;
  for (const ProcessFigures& one : figures.processes) {
    if (!one.hangs.empty()) hanging.push_back(fmt::format("{} hangs: {}", name_of(one.process, one.host), one.hangs));
  }
  return hanging;
}

std::vector<std::pair<const char*, std::optional<double>>> ProcessFigures::numbers() const {
  return {{"input_wait", input_wait}, {"peer_wait", peer_wait},         {"step_seconds", step_seconds},
          {"cpu_used", cpu_used},     {"cpu_process", cpu_process},     {"read", read},
          {"written", written},       {"memory_used", memory_used},     {"memory_total", memory_total},
          {"resident", resident},     {"device_in_use", device_in_use}, {"device_peak", device_peak}};
}

std::string to_json(const ProcessFigures& figures) {
  return json_of(figures).dump(-1, ' ', false, Json::error_handler_t::replace);
}

ProcessFigures parse_process_figures(std::string_view json, const std::string& where) {
  return parsed(json, where, figures_of);
}

std::string to_json(const HostFigures& figures) {
  Json json = {{"at", figures.at}, {"every", figures.every}, {"processes", Json::array()}};
  for (const ProcessFigures& one : figures.processes) {
    Json process = json_of(one);
    process["seen"] = one.seen;
    json["processes"].push_back(std::move(process));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

HostFigures parse_host_figures(std::string_view json, const std::string& where) {
  return parsed(json, where, [&](const Json& read) {
    HostFigures figures{read.at("at").get<double>(), read.at("every").get<double>(), {}};
    for (const Json& one : read.at("processes")) {
      ProcessFigures of = figures_of(one);
      if (std::ranges::find(figures.processes, of.process, &ProcessFigures::process) != figures.processes.end())
        throw data_error(fmt::format("process {} is there twice", of.process), where);
      figures.processes.push_back(std::move(of));
    }
    return figures;
  });
}

std::optional<SlowestProcess> slowest_process(const std::vector<ProcessFigures>& processes) {
  const auto by_input = slowest_by(Wait::kInput, processes), by_peers = slowest_by(Wait::kPeers, processes);
  if (!by_input || !by_peers) return by_input ? by_input : by_peers;
  return by_input->holds_up() || by_input->held_up() >= by_peers->held_up() ? by_input : by_peers;
}

std::string in_words(const SlowestProcess& slowest) {
  return fmt::format("{} waits {:.0f} % of the time for {}, the others {:.0f} %", name_of(slowest.process, slowest.host),
                     100 * slowest.its, slowest.wait == Wait::kInput ? "its input" : "other processes", 100 * slowest.others);
}

std::vector<std::string> silent_processes(const HostFigures& figures, double now) {
  std::vector<std::string> silent;
  for (const ProcessFigures& one : figures.processes) {
    const double ago = now - one.seen;
    if (ago <= kSilentIntervals * figures.every) continue;
    silent.push_back(fmt::format("{} was last heard of {:.0f} s ago", name_of(one.process, one.host), ago));
  }
  return silent;
}

}  // namespace tessera::monitor
