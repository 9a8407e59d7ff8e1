#include "cluster/launch/tpu.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::launch {
namespace {

// Source: Cloud TPU's pages on each version and on TPU software versions, GKE's "Plan TPUs in GKE".
struct Kind {
  std::string_view chip, accelerator, runtime, gke;
  int64_t counted;      // in the accelerator's type, for each chip: cores or chips
  int64_t single_host;  // chips up to which one host has them all
};
constexpr Kind kKinds[] = {{"v4", "v4-", "tpu-ubuntu2204-base", "tpu-v4-podslice", 2, 4},
                           {"v5e", "v5litepod-", "v2-alpha-tpuv5-lite", "tpu-v5-lite-podslice", 1, 8},
                           {"v5p", "v5p-", "v2-alpha-tpuv5", "tpu-v5p-slice", 2, 4},
                           {"v6e", "v6e-", "v2-alpha-tpuv6e", "tpu-v6e-slice", 1, 8}};
constexpr int64_t kChipsOfAHost = 4;  // of those of a slice of several hosts

// 256 of "16x16"; 0 for what is no grid.
int64_t chips_of(const std::string& grid) {
  int64_t chips = 1;
  for (const std::string& side : split(grid, 'x')) {
    int64_t length = 0;
    const auto [stopped, error] = std::from_chars(side.data(), side.data() + side.size(), length);
    if (error != std::errc() || stopped != side.data() + side.size() || length < 1 || length > 4096) return 0;
    chips *= length;
    if (chips > 65536) return 0;
  }
  return chips;
}

}  // namespace

TpuSlice find_slice(const std::string& topology) {
  const size_t colon = topology.find(':');
  const std::string chip = topology.substr(0, colon), grid = colon == std::string::npos ? "" : topology.substr(colon + 1);
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    known.emplace_back(kind.chip);
    if (chip != kind.chip) continue;
    const int64_t chips = chips_of(grid);
    if (chips == 0 || (chips > kind.single_host && chips % kChipsOfAHost != 0)) break;
    return {fmt::format("{}{}", kind.accelerator, chips * kind.counted),
            std::string(kind.runtime),
            std::string(kind.gke),
            grid,
            chips,
            chips <= kind.single_host ? 1 : chips / kChipsOfAHost};
  }
  const bool known_chip = !known.empty() && known.back() == chip;
  throw usage_error(fmt::format("`{}` is no slice of TPUs", topology), "--topology",
                    known_chip ? fmt::format("write the chips' grid: {}:4x4", chip)
                               : "write CHIP:GRID, as v5e:16x16; chips: " + join(known, ", "));
}

}  // namespace tessera::launch
