#include "cli/rate_setting.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "optim/schedule/schedule.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kRateSetting = "lr=";

}  // namespace

bool is_rate_setting(std::string_view word) { return word.starts_with(kRateSetting); }

std::string schedule_with_rate(config::Section recipe, const std::string& rate) {
  const auto number = parse_number(rate);
  if (!number || !std::isfinite(*number) || *number < 0) {
    throw usage_error(fmt::format("`lr` is the rate of the recipe's schedule, and is \"{}\"", rate), "override lr=" + rate,
                      "a number, as lr=3e-4; a schedule is 'optimizer.lr=cosine(3e-4, warmup=5 %)', and of several rates, "
                      "as lr=3e-4,1e-3, tessera sweep makes runs");
  }
  return "optimizer.lr=" + optim::with_rate(recipe.section("optimizer").text("lr", "1e-3"), rate);
}

config::Section read_with_rate(const std::vector<std::string>& settings, const ReadRecipe& read) {
  std::vector<std::string> others;
  std::string rate;
  bool given = false;
  for (const std::string& setting : settings) {
    if (is_rate_setting(setting)) {
      rate = setting.substr(kRateSetting.size()), given = true;
    } else {
      others.push_back(setting);
    }
  }
  if (given) others.push_back(schedule_with_rate(read(others), rate));
  return read(others);
}

}  // namespace tessera::cli
