#include "optim/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/call.h"
#include "base/error.h"
#include "base/pattern.h"
#include "base/text.h"

namespace tessera::optim {
namespace {

using Rules = PatternRules<double>;

Rules parse_rules(const std::vector<std::string>& lines, const std::string& key, const std::string& where) {
  Rules rules;
  for (const std::string& line : lines) {
    // A pattern may hold '=' itself (a look-ahead does), so that the last one divides.
    const size_t equals = line.rfind('=');
    const auto value =
        equals == std::string::npos ? std::nullopt : parse_number(trim(std::string_view(line).substr(equals + 1)));
    if (!value || *value < 0 || !std::isfinite(*value)) {
      throw usage_error(fmt::format("`{}`: \"{}\" is not a rule", key, line), where,
                        fmt::format("a rule is PATTERN = NUMBER (0 or more), for example {} = [\"head/.* = 10\"]", key));
    }
    rules.rules.push_back({Pattern(std::string(trim(std::string_view(line).substr(0, equals))), where), *value});
  }
  return rules;
}

// The pattern without the signs of regular expressions, to look for a name that was meant.
std::string plain_part(const std::string& pattern) {
  std::string plain;
  for (const char c : pattern) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '/' || c == '-') plain += c;
  }
  while (!plain.empty() && plain.back() == '/') plain.pop_back();
  return plain;
}

std::vector<std::string> names_and_prefixes(const Params& params) {
  std::vector<std::string> names;
  for (const Param& param : params) {
    for (size_t end = param.name.find('/'); end != std::string::npos; end = param.name.find('/', end + 1)) {
      names.push_back(param.name.substr(0, end));
    }
    names.push_back(param.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void warn_unmatched(const Rules& rules, const std::string& key, const Params& params, std::vector<std::string>& warnings) {
  for (const auto& rule : rules.rules) {
    if (std::any_of(params.begin(), params.end(), [&](const Param& p) { return rule.pattern.matches(p.name); })) continue;
    std::string warning = fmt::format("`{}`: no parameter matches \"{}\"", key, rule.pattern.text());
    if (const auto near = nearest_name(plain_part(rule.pattern.text()), names_and_prefixes(params))) {
      warning += fmt::format("; did you mean `{}`?", *near);
    }
    warnings.push_back(std::move(warning));
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

ResolvedRules resolve_rules(const RuleOptions& options, const Params& params, const std::string& where) {
  const std::vector<std::string> presets = {"timm", "big_vision", "all", "none"};
  if (std::find(presets.begin(), presets.end(), options.decay_mask) == presets.end()) {
    throw usage_error(fmt::format("`decay_mask` is \"{}\"", options.decay_mask), where,
                      suggest_name(options.decay_mask, presets));
  }
  const Rules decay = parse_rules(options.decay_rules, "decay_rules", where);
  const Rules lr_mult = parse_rules(options.lr_mult, "lr_mult", where);
  Rules freeze;
  for (const std::string& pattern : options.freeze) freeze.rules.push_back({Pattern(pattern, where), 0});

  ResolvedRules resolved;
  warn_unmatched(decay, "decay_rules", params, resolved.warnings);
  warn_unmatched(lr_mult, "lr_mult", params, resolved.warnings);
  warn_unmatched(freeze, "freeze", params, resolved.warnings);
  for (const Param& param : params) {
    ParamRule rule;
    const double* rate = lr_mult.find(param.name);
    const double* share = decay.find(param.name);
    rule.decay = share ? *share : decays_by_preset(options.decay_mask, param) ? 1 : 0;
    rule.lr_mult = rate ? *rate : 1;
    rule.frozen = rule.lr_mult == 0 || freeze.find(param.name);
    resolved.rules.push_back(rule);
  }
  if (std::all_of(resolved.rules.begin(), resolved.rules.end(), [](const ParamRule& r) { return r.frozen; })) {
    throw usage_error("every parameter is frozen, so there is nothing to train", where, "narrow `freeze` or `lr_mult`");
  }
  return resolved;
}

}  // namespace tessera::optim
