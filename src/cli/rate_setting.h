#pragma once
// `lr=3e-4` among the settings of a command: the rate of the recipe's schedule, whose other arguments stay.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/section.h"

namespace tessera::cli {

// Whether a word is such a setting.
bool is_rate_setting(std::string_view word);

// The same as a setting of `recipe`: optimizer.lr=cosine(3e-4, warmup=5 %). A usage Error where `rate` is no number above 0.
std::string schedule_with_rate(config::Section recipe, const std::string& rate);

// What `read` makes of the settings, with the last lr=RATE among them as a schedule.
using ReadRecipe = std::function<config::Section(const std::vector<std::string>& settings)>;
config::Section read_with_rate(const std::vector<std::string>& settings, const ReadRecipe& read);

}  // namespace tessera::cli
