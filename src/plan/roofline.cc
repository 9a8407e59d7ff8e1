#include "plan/roofline.h"

#include <algorithm>

namespace tessera::plan {
namespace {

double ring_share(double devices) { return (devices - 1) / devices; }

double exchange_seconds(const Step& step, const pjrt::Chip& chip) {
  double bytes = 0;
  for (const auto& [kind, collective] : step.counts.collectives) {
    bytes += collective.bytes * (kind == "all-reduce" ? 2 : 1);
  }
  const auto devices = static_cast<double>(step.devices), groups = static_cast<double>(step.groups);
  const double inside = bytes * ring_share(devices / groups) / chip.link_bandwidth;
  // Each device of a group exchanges its share of the array with its peers in the other groups.
  const double between = bytes * ring_share(groups) / (devices / groups) / chip.network_bandwidth;
  return std::max(inside, between);
}

}  // namespace

double Roofline::seconds() const { return std::max({compute, memory, interconnect}); }

const char* Roofline::bound() const {
  if (interconnect >= compute && interconnect >= memory) return "interconnect";
  return memory > compute ? "HBM" : "compute";
}

Roofline roofline(const Step& step, const pjrt::Chip& chip) {
  Roofline out;
  out.compute = step.counts.flops / (step.bf16 ? chip.bf16_flops : chip.f32_flops);
  out.memory = (step.counts.product_bytes + step.counts.transfer_bytes + step.state_bytes) / chip.hbm_bandwidth;
  out.interconnect = exchange_seconds(step, chip);
  return out;
}

}  // namespace tessera::plan
