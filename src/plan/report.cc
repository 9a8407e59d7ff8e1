#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "plan/plan.h"

namespace tessera::plan {
namespace {

constexpr size_t kListed = 5;

std::string si(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t i = 0;
  while (value >= 1000 && i + 1 < std::size(kPrefixes)) value /= 1000, ++i;
  return fmt::format("{:.3g} {}{}", value, kPrefixes[i], unit);
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

std::string verdict(const Plan& plan) {
  if (plan.memory == 0) return "";
  const std::string have = human_bytes(plan.memory);
  if (plan.fits) return fmt::format("fits: {:.0f} % of {}", 100 * plan.peak / plan.memory, have);
  if (plan.peak > 0) return fmt::format("DOES NOT FIT: {} of {}", human_bytes(plan.peak), have);
  return fmt::format("DOES NOT FIT in {}", have);
}

std::string change_text(const Plan& plan, const Proposal& proposal) {
  std::string text = join(proposal.overrides, " ");
  if (proposal.topology == plan.topology) return text;
  return fmt::format("--topology {}{}{}", proposal.topology, text.empty() ? "" : " ", text);
}

std::string line(const char* what, const std::string& text) { return fmt::format("{:<14}{}\n", what, text); }

std::string estimate_lines(const Plan& plan) {
  const Roofline& r = *plan.roofline;
  std::string out =
      line("step", fmt::format("{} at best, bound by {}   compute {}, HBM {}, interconnect {}", seconds_text(r.seconds()),
                               r.bound(), seconds_text(r.compute), seconds_text(r.memory), seconds_text(r.interconnect)));
  out += line("speed", fmt::format("{:.4g} images/s   MFU {:.1f} %", plan.images_per_second, 100 * plan.mfu));
  return out + line("figures", fmt::format("{} TFLOP/s bf16, {} f32, {} memory, {} link, {} network a device ({})",
                                           plan.chip->bf16_flops / 1e12, plan.chip->f32_flops / 1e12,
                                           si(plan.chip->hbm_bandwidth, "B/s"), si(plan.chip->link_bandwidth, "B/s"),
                                           si(plan.chip->network_bandwidth, "B/s"), plan.chip->source));
}

// "params/head/kernel f32[768, 1000]": what takes how much, and its share of all.
std::string array_line(const LiveArray& array, double all) {
  const auto bytes = static_cast<double>(array.bytes);
  return fmt::format("  {:>10} {:>4.0f} %  {} {}\n", human_bytes(bytes), 100 * bytes / all, array.name, array.type);
}

std::string peak_lines(const Plan& plan) {
  if (plan.peak == 0) return "";
  if (plan.at_peak.empty()) return line("at the peak", "not known: the plugin does not give the order of the program's steps");
  const double told = 100 * plan.accounted / plan.peak;
  std::string out = line(
      "at the peak", fmt::format("{} arrays, {} ({:.0f} % of the compiler's peak); the largest:",
                                 human_count(static_cast<int64_t>(plan.at_peak.size())), human_bytes(plan.accounted), told));
  for (size_t i = 0; i < std::min(kListed, plan.at_peak.size()); ++i) out += array_line(plan.at_peak[i], plan.accounted);
  return out;
}

std::string proposal_lines(const Plan& plan) {
  std::string out = "largest arrays of the state of a device\n";
  for (size_t i = 0; i < std::min(kListed, plan.largest.size()); ++i) {
    out += fmt::format("  {:>10}  {} {}\n", human_bytes(static_cast<double>(byte_count(plan.largest[i].type))),
                       plan.largest[i].name, to_string(plan.largest[i].type));
  }
  if (plan.proposals.empty()) return out + "nothing tried would fit: take more or larger devices, or a smaller model\n";
  out += "what would fit\n";
  for (size_t i = 0; i < plan.proposals.size(); ++i) {
    const Proposal& p = plan.proposals[i];
    out += fmt::format("  {}. {}   peak {}{}\n", i + 1, change_text(plan, p), human_bytes(p.peak_bytes),
                       p.step_seconds ? fmt::format(", {} a step at best", seconds_text(*p.step_seconds)) : "");
  }
  return out;
}

}  // namespace

std::string plan_text(const Plan& plan) {
  std::string out = line("topology", fmt::format("{}   {} devices ({})   mesh {}", plan.topology, human_count(plan.devices),
                                                 plan.device_kind, plan.mesh));
  out += line("model", fmt::format("{} parameters   batch {}", human_count(plan.parameters), human_count(plan.batch)));
  out += line("a device",
              plan.peak > 0 ? fmt::format("peak {}   arguments {}, temporaries {}, outputs {}", human_bytes(plan.peak),
                                          human_bytes(plan.arguments), human_bytes(plan.temporaries), human_bytes(plan.outputs))
                            : fmt::format("state {}; the compiler gave up", human_bytes(plan.arguments)));
  if (const std::string text = verdict(plan); !text.empty()) out += line("", text);
  out += peak_lines(plan);
  out += line("a step", fmt::format("{}, {} of memory traffic", si(plan.counts.flops, "FLOP"),
                                    si(plan.counts.product_bytes + plan.counts.transfer_bytes + plan.state_bytes, "B")));
  for (const auto& [kind, c] : plan.counts.collectives) {
    out += line("", fmt::format("{} x {}, {}", human_count(c.count), kind, si(c.bytes, "B")));
  }
  if (plan.roofline) out += estimate_lines(plan);
  if (plan.compile_seconds > 0) {
    out += line("compiled in",
                fmt::format("{:.1f} s{}", plan.compile_seconds, plan.compiled_before ? ", by an earlier plan" : ""));
  }
  if (!plan.fits) out += proposal_lines(plan);
  out.pop_back();
  return out;
}

std::string plan_table(const std::vector<Plan>& plans) {
  std::string out = fmt::format("{:<18} {:>8}  {:<28} {:>10} {:>7}  {:>10}  {:<12} {:>10} {:>6}", "topology", "devices", "mesh",
                                "peak", "of HBM", "step", "bound", "images/s", "MFU");
  for (const Plan& p : plans) {
    const std::string share = p.memory > 0 && p.peak > 0 ? fmt::format("{:.0f} %", 100 * p.peak / p.memory) : "";
    out += fmt::format("\n{:<18} {:>8}  {:<28} {:>10} {:>7}", p.topology, human_count(p.devices), p.mesh,
                       p.peak > 0 ? human_bytes(p.peak) : "too much", share);
    if (p.roofline) {
      out += fmt::format("  {:>10}  {:<12} {:>10.4g} {:>6}", seconds_text(p.roofline->seconds()), p.roofline->bound(),
                         p.images_per_second, fmt::format("{:.1f} %", 100 * p.mfu));
    }
    if (!p.fits) out += "  does not fit";
  }
  return out;
}

std::string plan_json(const Plan& plan) {
  nlohmann::ordered_json json;
  json["topology"] = plan.topology;
  json["devices"] = plan.devices;
  json["device_kind"] = plan.device_kind;
  json["mesh"] = plan.mesh;
  json["parameters"] = plan.parameters;
  json["batch"] = plan.batch;
  auto& device = json["per_device"];
  device["argument_bytes"] = static_cast<int64_t>(plan.arguments);
  device["temp_bytes"] = static_cast<int64_t>(plan.temporaries);
  device["output_bytes"] = static_cast<int64_t>(plan.outputs);
  device["peak_bytes"] = static_cast<int64_t>(plan.peak);
  device["accounted_bytes"] = static_cast<int64_t>(plan.accounted);
  device["at_peak"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < std::min(kListed, plan.at_peak.size()); ++i) {
    const LiveArray& array = plan.at_peak[i];
    device["at_peak"].push_back({{"name", array.name}, {"type", array.type}, {"bytes", array.bytes}});
  }
  device["hbm_bytes"] = static_cast<int64_t>(plan.memory);
  device["flops"] = plan.counts.flops;
  device["hbm_traffic_bytes"] = plan.counts.product_bytes + plan.counts.transfer_bytes + plan.state_bytes;
  device["collectives"] = nlohmann::ordered_json::object();
  for (const auto& [kind, c] : plan.counts.collectives) device["collectives"][kind] = {{"count", c.count}, {"bytes", c.bytes}};
  json["fits"] = plan.fits;
  json["step_seconds"] = plan.roofline ? nlohmann::ordered_json(plan.roofline->seconds()) : nullptr;
  json["bound"] = plan.roofline ? nlohmann::ordered_json(plan.roofline->bound()) : nullptr;
  if (plan.roofline) {
    json["bounds"] = {{"compute_seconds", plan.roofline->compute},
                      {"hbm_seconds", plan.roofline->memory},
                      {"interconnect_seconds", plan.roofline->interconnect}};
  }
  json["images_per_second"] = plan.roofline ? nlohmann::ordered_json(plan.images_per_second) : nullptr;
  json["mfu"] = plan.roofline ? nlohmann::ordered_json(plan.mfu) : nullptr;
  json["compile_seconds"] = plan.compile_seconds;
  json["compiled_before"] = plan.compiled_before;
  json["proposals"] = nlohmann::ordered_json::array();
  for (const Proposal& p : plan.proposals) {
    nlohmann::ordered_json one{
        {"topology", p.topology}, {"overrides", p.overrides}, {"peak_bytes", static_cast<int64_t>(p.peak_bytes)}};
    if (p.step_seconds) one["step_seconds"] = *p.step_seconds;
    json["proposals"].push_back(std::move(one));
  }
  return json.dump();
}

}  // namespace tessera::plan
