#include "optim/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/pattern.h"
#include "base/text/text.h"

namespace tessera::optim {
namespace {

using Rules = PatternRules<double>;
using ScheduleRules = PatternRules<size_t>;

Rules parse_rules(const std::vector<std::string>& lines, const std::string& key, const std::string& where) {
  Rules rules;
  for (const std::string& line : lines) {
    const auto parts = split_rule(line);
    const auto value = parts ? parse_number(parts->second) : std::nullopt;
    if (!value || *value < 0 || !std::isfinite(*value)) {
      throw usage_error(fmt::format("`{}`: \"{}\" is not a rule", key, line), where,
                        fmt::format("a rule is PATTERN = NUMBER (0 or more), for example {} = [\"head/.* = 10\"]", key));
    }
    rules.rules.push_back({Pattern(parts->first, where), *value});
  }
  return rules;
}

// The schedules themselves are read elsewhere.
ScheduleRules parse_schedule_rules(const std::vector<std::string>& lines, const std::string& where) {
  ScheduleRules rules;
  for (const std::string& line : lines) {
    const auto parts = split_rule(line);
    if (!parts) {
      throw usage_error(fmt::format("`schedules`: \"{}\" is not a rule", line), where,
                        "a rule is PATTERN = SCHEDULE, for example schedules = [\"head/.* = cosine(1e-2)\"]");
    }
    rules.rules.push_back({Pattern(parts->first, where), rules.rules.size() + 1});
  }
  return rules;
}

// The layers' multipliers of one parameter, one for each block.
std::vector<double> layer_scales(const RuleOptions& options, const Param& param, int64_t last) {
  std::vector<double> scales;
  for (int64_t block = 0; block < (param.stacked ? param.type.dims[0] : 1); ++block) {
    const auto from_output = static_cast<double>(last - *param.layer - block);
    scales.push_back(std::max(std::pow(options.layer_decay, from_output), options.layer_decay_min));
  }
  return scales;
}

void apply_layer_decay(const RuleOptions& options, const Params& params, const std::string& where,
                       std::vector<ParamRule>& resolved) {
  if (!(options.layer_decay > 0) || options.layer_decay > 1 || !(options.layer_decay_min >= 0)) {
    throw usage_error(fmt::format("`layer_decay` must lie in (0, 1], and is {}", options.layer_decay), where);
  }
  if (options.layer_decay == 1) return;
  int64_t last = 0;
  for (const Param& param : params) {
    if (!param.layer) {
      throw usage_error("`layer_decay`: this model does not say which layer its parameters belong to", where,
                        "use lr_mult = [\"PATTERN = FACTOR\", …] instead");
    }
    last = std::max(last, *param.layer + (param.stacked ? param.type.dims[0] - 1 : 0));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const std::vector<double> scales = layer_scales(options, params[i], last);
    const bool same = std::all_of(scales.begin(), scales.end(), [&](double s) { return s == scales[0]; });
    if (same) resolved[i].lr_mult *= scales[0];
    if (!same) resolved[i].block_mult = scales;
  }
}

template <class T>
void check_matched(const PatternRules<T>& rules, const std::string& key, const Params& params, const std::string& where) {
  std::vector<std::string> names;
  for (const Param& param : params) names.push_back(param.name);
  for (const auto& rule : rules.rules) {
    if (const auto message = unmatched(rule.pattern, names, "parameter")) {
      throw usage_error(fmt::format("`{}`: {}", key, *message), where,
                        "`tessera train RECIPE --parameters` lists the names of all");
    }
  }
}

bool decays_by_preset(const std::string& preset, const Param& param) {
  if (preset == "all") return true;
  if (preset == "none") return false;
  const size_t slash = param.name.rfind('/');
  const std::string leaf = slash == std::string::npos ? param.name : param.name.substr(slash + 1);
  if (preset == "big_vision") return leaf == "kernel";
  return param.rank() > 1 && leaf != "bias" && leaf != "pos_embed" && leaf != "cls_token" && leaf != "dist_token";
}

}  // namespace

bool freezes(const std::string& schedule_rule) {
  const auto parts = split_rule(schedule_rule);
  return parts && parts->second == "none";
}

std::vector<ParamRule> resolve_rules(const RuleOptions& options, const Params& params, const std::string& where) {
  const std::vector<std::string> presets = {"timm", "big_vision", "all", "none"};
  if (std::find(presets.begin(), presets.end(), options.decay_mask) == presets.end()) {
    throw usage_error(fmt::format("`decay_mask` is \"{}\"", options.decay_mask), where,
                      suggest_name(options.decay_mask, presets));
  }
  const Rules decay = parse_rules(options.decay_rules, "decay_rules", where);
  const Rules lr_mult = parse_rules(options.lr_mult, "lr_mult", where);
  const ScheduleRules schedules = parse_schedule_rules(options.schedules, where);
  Rules freeze;
  for (const std::string& pattern : options.freeze) freeze.rules.push_back({Pattern(pattern, where), 0});

  std::vector<ParamRule> resolved;
  check_matched(decay, "decay_rules", params, where);
  check_matched(lr_mult, "lr_mult", params, where);
  check_matched(schedules, "schedules", params, where);
  check_matched(freeze, "freeze", params, where);
  for (const Param& param : params) {
    ParamRule rule;
    const double* rate = lr_mult.find(param.name);
    const double* share = decay.find(param.name);
    rule.decay = share ? *share : decays_by_preset(options.decay_mask, param) ? 1 : 0;
    rule.lr_mult = rate ? *rate : 1;
    if (const size_t* schedule = schedules.find(param.name)) rule.schedule = *schedule;
    const bool none = rule.schedule > 0 && freezes(options.schedules[rule.schedule - 1]);
    rule.frozen = !param.trained || rule.lr_mult == 0 || none || freeze.find(param.name);
    resolved.push_back(rule);
  }
  if (std::all_of(resolved.begin(), resolved.end(), [](const ParamRule& r) { return r.frozen; })) {
    throw usage_error("every parameter is frozen, so there is nothing to train", where,
                      "narrow `freeze`, `lr_mult` or `schedules`");
  }
  apply_layer_decay(options, params, where, resolved);
  return resolved;
}

}  // namespace tessera::optim
