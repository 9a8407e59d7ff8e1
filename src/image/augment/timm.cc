#include "image/augment/timm.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::image {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMaxSteps = 64;

// `mstd0.5` is a letter part and a number.
struct Section {
  std::string key;
  double value;
};

Section read_section(const std::string& part, const CallReader& call) {
  const size_t digits = std::min(part.find_first_of("0123456789.-+"), part.size());
  const std::optional<double> value = parse_number(std::string_view(part).substr(digits));
  if (digits == 0 || !value) call.fail(fmt::format("cannot read `{}`: a section is letters and a number, as in m9", part));
  return {part.substr(0, digits), *value};
}

int read_whole(const Section& section, int low, int high, const CallReader& call) {
  if (section.value != std::floor(section.value) || section.value < low || section.value > high) {
    call.fail(fmt::format("`{}{}` must be a whole number from {} to {}", section.key, section.value, low, high));
  }
  return static_cast<int>(section.value);
}

[[noreturn]] void unknown_section(const Section& section, const std::vector<std::string>& known, const CallReader& call) {
  call.fail(fmt::format("unknown section `{}`", section.key), "it takes: " + join(known, ", "));
}

double read_std(const Section& section, const CallReader& call) {
  if (section.value < 0) call.fail("`mstd` is a standard deviation, so at least 0");
  return section.value;
}

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
double draw_gamma(double shape, Rng& rng) {
  if (shape < 1) return draw_gamma(shape + 1, rng) * std::pow(1 - rng.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = rng.normal(), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - rng.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double draw_beta(double shape, Rng& rng) {
  const double a = draw_gamma(shape, rng), b = draw_gamma(shape, rng);
  return a / (a + b);
}

// An index with probability in proportion to its weight, among those not yet taken.
size_t draw_weighted(const std::vector<double>& weights, uint64_t taken, Rng& rng) {
  double total = 0;
  const auto free = [taken](size_t i) { return (taken >> i & 1) == 0; };
  for (size_t i = 0; i < weights.size(); ++i) total += free(i) ? weights[i] : 0;
  double at = rng.uniform() * total;
  size_t chosen = weights.size();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!free(i)) continue;
    chosen = i;
    if (at < weights[i]) break;
    at -= weights[i];
  }
  return chosen;
}

}  // namespace

TimmAugment::TimmAugment(std::string_view word, std::optional<Filter> filter, const CallReader& call) : filter_(filter) {
  std::vector<std::string> parts;  // `augmix-d-1` has a dash that is a sign
  for (const std::string& part : split(word, '-')) {
    const bool sign = !parts.empty() && parts.back() == "d";
    sign ? void(parts.back() += "-" + part) : parts.push_back(part);
  }
  const auto parse = parts[0] == "rand"     ? &TimmAugment::parse_rand
                     : parts[0] == "augmix" ? &TimmAugment::parse_augmix
                                            : &TimmAugment::parse_auto;
  (this->*parse)(parts, call);
}

void TimmAugment::parse_rand(const std::vector<std::string>& parts, const CallReader& call) {
  kind_ = Kind::kRand;
  double level = 10, prob = 0.5;
  bool increasing = false;
  std::string set;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].starts_with('t')) {
      set = parts[i].substr(1);
      continue;
    }
    const Section section = read_section(parts[i], call);
    if (section.key == "m") {
      level = read_whole(section, 0, 1000, call);
    } else if (section.key == "n") {
      layers_ = read_whole(section, 1, kMaxSteps, call);
    } else if (section.key == "p") {
      prob = section.value;
    } else if (section.key == "mstd") {
      levels_.std = section.value > 100 ? kInfinity : read_std(section, call);
    } else if (section.key == "mmax") {
      levels_.most = read_whole(section, 1, 1000, call);
    } else if (section.key == "inc") {
      increasing = read_whole(section, 0, 1000, call) != 0;
    } else {
      unknown_section(section, {"m", "n", "p", "mstd", "mmax", "inc", "tweights", "t3a", "t3aw"}, call);
    }
  }
  if (prob < 0 || prob > 1) call.fail("`p` is a probability, from 0 to 1");
  const std::optional<TimmChoices> choices = timm_rand_choices(set, increasing);
  if (!choices) call.fail(fmt::format("unknown set of operations `t{}`", set), "it takes: tweights, t3a, t3aw");
  for (const TimmWeighted& choice : choices->ops) {
    ops_.push_back({&timm_op(choice.name), prob, level});
    if (choices->weighted) weights_.push_back(choice.weight);
  }
  if (choices->weighted && static_cast<size_t>(layers_) > ops_.size()) {
    call.fail(
        fmt::format("`n{}` is more than the {} operations of `t{}`, and none is chosen twice", layers_, ops_.size(), set));
  }
}

void TimmAugment::parse_auto(const std::vector<std::string>& parts, const CallReader& call) {
  kind_ = Kind::kAuto;
  const TimmAutoPolicy* policy = timm_auto_policy(parts[0]);
  if (!policy) {
    call.fail(fmt::format("unknown augmentation `{}`", parts[0]),
              "it takes timm's words: rand-…, augmix-…, " + join(timm_auto_policy_names(), ", "));
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    const Section section = read_section(parts[i], call);
    if (section.key != "mstd") unknown_section(section, {"mstd"}, call);
    levels_.std = read_std(section, call);
  }
  for (const TimmSubPolicy& choice : policy->choices) {
    for (const TimmPolicyOp& op : choice) {
      if (op.name.empty()) continue;
      const bool other = policy->research_posterize && op.name.starts_with("Posterize");
      ops_.push_back({&timm_op(other ? "PosterizeIncreasing" : op.name), op.prob, op.level});
    }
    ends_.push_back(ops_.size());
  }
}

void TimmAugment::parse_augmix(const std::vector<std::string>& parts, const CallReader& call) {
  kind_ = Kind::kAugMix;
  translate_ = 0.3;
  levels_.std = kInfinity;
  double level = 3;
  for (size_t i = 1; i < parts.size(); ++i) {
    const Section section = read_section(parts[i], call);
    if (section.key == "m") {
      level = read_whole(section, 0, 1000, call);
    } else if (section.key == "w") {
      width_ = read_whole(section, 1, kMaxSteps, call);
    } else if (section.key == "d") {
      depth_ = read_whole(section, -1, kMaxSteps, call);
    } else if (section.key == "a") {
      alpha_ = section.value;
    } else if (section.key == "b") {
      blended_ = read_whole(section, 0, 1000, call) != 0;
    } else if (section.key == "mstd") {
      levels_.std = read_std(section, call);
    } else {
      unknown_section(section, {"m", "w", "d", "a", "b", "mstd"}, call);
    }
  }
  if (!(alpha_ > 0)) call.fail("`a` must be positive");
  for (const TimmWeighted& choice : timm_augmix_ops()) ops_.push_back({&timm_op(choice.name), 1.0, level});
}

void TimmAugment::draw(int width, int height, Rng& rng, AugmentPlan& plan) const {
  plan.clear();
  const TimmScale scale{translate_, width, height};
  switch (kind_) {
    case Kind::kRand: return draw_rand(scale, rng, plan);
    case Kind::kAuto: return draw_auto(scale, rng, plan);
    case Kind::kAugMix: return draw_augmix(scale, rng, plan);
  }
}

void TimmAugment::draw_rand(const TimmScale& scale, Rng& rng, AugmentPlan& plan) const {
  uint64_t taken = 0;
  for (int layer = 0; layer < layers_; ++layer) {
    const size_t chosen = weights_.empty() ? rng.below(ops_.size()) : draw_weighted(weights_, taken, rng);
    taken |= uint64_t{1} << chosen;
    add(ops_[chosen], scale, rng, plan.steps);
  }
}

void TimmAugment::draw_auto(const TimmScale& scale, Rng& rng, AugmentPlan& plan) const {
  const size_t chosen = rng.below(ends_.size());
  for (size_t i = chosen == 0 ? 0 : ends_[chosen - 1]; i < ends_[chosen]; ++i) add(ops_[i], scale, rng, plan.steps);
}

void TimmAugment::draw_augmix(const TimmScale& scale, Rng& rng, AugmentPlan& plan) const {
  plan.blended = blended_;
  double total = 0;
  for (int i = 0; i < width_; ++i) {
    const double weight = draw_gamma(alpha_, rng);  // a Dirichlet draw, once divided by their sum
    total += weight;
    plan.chains.push_back({0, static_cast<float>(weight)});
  }
  plan.mix = static_cast<float>(draw_beta(alpha_, rng));
  for (AugmentPlan::Chain& chain : plan.chains) {
    chain.weight = static_cast<float>(chain.weight / total);
    const auto depth = depth_ > 0 ? static_cast<uint64_t>(depth_) : 1 + rng.below(3);
    for (uint64_t i = 0; i < depth; ++i) add(ops_[rng.below(ops_.size())], scale, rng, plan.steps);
    chain.end = plan.steps.size();
  }
}

void TimmAugment::add(const TimmOp& op, const TimmScale& scale, Rng& rng, AugmentSteps& steps) const {
  if (op.prob < 1 && rng.uniform() >= op.prob) return;
  double level = op.level;
  if (levels_.std == kInfinity) {
    level = rng.uniform(0, level);
  } else if (levels_.std > 0) {
    level += levels_.std * rng.normal();
  }
  level = std::clamp(level, 0.0, levels_.most);
  AugmentStep step{op.rule->op};
  step.value = op.rule->argument(level, scale, rng);
  step.filter = filter_ ? *filter_ : rng.below(2) == 0 ? Filter::kBilinear : Filter::kBicubic;
  steps.push_back(step);
}

}  // namespace tessera::image
