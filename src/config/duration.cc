#include "config/duration.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::config {
namespace {

struct UnitName {
  std::string_view singular, plural;
  DurationUnit unit;
};
constexpr UnitName kUnits[] = {{"step", "steps", DurationUnit::kSteps},
                               {"epoch", "epochs", DurationUnit::kEpochs},
                               {"example", "examples", DurationUnit::kExamples},
                               {"percent", "%", DurationUnit::kPercent}};
constexpr std::string_view kTeach =
    "write a number with its unit: \"300 epochs\", \"10000 steps\", \"1.2e9 examples\" or \"10 %\"";

}  // namespace

Duration parse_duration(std::string_view text, std::string_view where) {
  const std::string_view whole = trim(text);
  const auto fail = [&](const std::string& message) { return usage_error(message, std::string(where), std::string(kTeach)); };
  size_t split_at = whole.size();
  while (split_at > 0 && (std::isalpha(static_cast<unsigned char>(whole[split_at - 1])) || whole[split_at - 1] == '%'))
    --split_at;
  const std::string_view unit_text = whole.substr(split_at);
  const std::optional<double> value = parse_number(trim(whole.substr(0, split_at)));
  if (unit_text.empty() && value) throw fail(fmt::format("`{}` has no unit", text));
  if (!value || !std::isfinite(*value)) throw fail(fmt::format("`{}` is not a duration", text));
  if (*value < 0) throw fail(fmt::format("`{}` is negative", text));
  for (const UnitName& name : kUnits) {
    if (unit_text == name.singular || unit_text == name.plural) return {*value, name.unit};
  }
  throw fail(fmt::format("`{}` has the unknown unit `{}`", text, unit_text));
}

std::string to_string(const Duration& duration) {
  for (const UnitName& name : kUnits) {
    if (name.unit != duration.unit) continue;
    const bool one = duration.value == 1 && duration.unit != DurationUnit::kPercent;
    return fmt::format("{} {}", duration.value, one ? name.singular : name.plural);
  }
  TESSERA_CHECK(false, "duration unit {}", static_cast<int>(duration.unit));
  return {};
}

int64_t to_steps(const Duration& duration, int64_t batch, int64_t examples_per_epoch, int64_t total_steps,
                 std::string_view where) {
  TESSERA_CHECK(batch >= 1 && examples_per_epoch >= 1, "batch {} of {} examples", batch, examples_per_epoch);
  double steps = duration.value;
  switch (duration.unit) {
    case DurationUnit::kSteps: break;
    case DurationUnit::kEpochs: steps *= static_cast<double>(examples_per_epoch) / static_cast<double>(batch); break;
    case DurationUnit::kExamples: steps /= static_cast<double>(batch); break;
    case DurationUnit::kPercent:
      if (total_steps <= 0) {
        throw usage_error(fmt::format("`{}` is a share of the whole run, whose length it can't set", to_string(duration)),
                          std::string(where), std::string(kTeach));
      }
      steps *= static_cast<double>(total_steps) / 100;
      break;
  }
  if (steps <= 0) return 0;
  if (steps > 9e15) throw usage_error(fmt::format("`{}` is too long", to_string(duration)), std::string(where));
  return std::max<int64_t>(1, std::llrint(steps));
}

}  // namespace tessera::config
