#pragma once
// Lengths of training, written with their unit: "300 epochs", "10000 steps", "1.2e9 examples", "10 %" (of the whole run).

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::config {

enum class DurationUnit { kSteps, kEpochs, kExamples, kPercent };

struct Duration {
  double value = 0;
  DurationUnit unit = DurationUnit::kSteps;
  bool operator==(const Duration&) const = default;
};

// "<number> <unit>"; the space may be left out, the number is non-negative, the unit step(s), epoch(s), example(s), percent or
// %. Anything else is a usage Error at `where` that teaches the units.
Duration parse_duration(std::string_view text, std::string_view where = {});

// "300 epochs", "1 step", "10 %": parses back to the same duration.
std::string to_string(const Duration& duration);

// In steps of `batch` examples. With N examples per epoch and T total steps:
//   steps: value   ·   epochs: value N / batch   ·   examples: value / batch   ·   percent: value T / 100
// rounded to the nearest whole number (halves to even), as big_vision does; at least 1 unless the duration is zero.
// A percentage of a total that isn't known (total_steps <= 0) is a usage Error at `where`. batch and examples_per_epoch >= 1.
int64_t to_steps(const Duration& duration, int64_t batch, int64_t examples_per_epoch, int64_t total_steps,
                 std::string_view where = {});

}  // namespace tessera::config
