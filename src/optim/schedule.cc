#include "optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/call.h"
#include "base/error.h"
#include "base/text.h"
#include "config/duration.h"
#include "ir/ops.h"

namespace tessera::optim {
namespace {

using ir::Value;

// The formulas are written once, over double on the host and over Value in a graph.
Value number(double x) { return ir::constant(x); }
double at_least(double x, double low) { return std::max(x, low); }
Value at_least(Value x, double low) { return ir::maximum(x, number(low)); }
double at_most(double x, double high) { return std::min(x, high); }
Value at_most(Value x, double high) { return ir::minimum(x, number(high)); }
double cosine(double x) { return std::cos(x); }
Value cosine(Value x) { return ir::cos(x); }
double reciprocal_sqrt(double x) { return 1 / std::sqrt(x); }
Value reciprocal_sqrt(Value x) { return ir::rsqrt(x); }
double round_down(double x) { return std::floor(x); }
Value round_down(Value x) { return ir::floor(x); }
double raise(double x, double power) { return std::pow(x, power); }
Value raise(Value x, double power) { return power == 1 ? x : ir::power(x, number(power)); }
double reached(double step, double milestone) { return step >= milestone ? 1 : 0; }
Value reached(Value step, double milestone) {
  return ir::convert(ir::compare(ir::Compare::kGe, step, number(milestone)), DType::kF32);
}
double power_of(double x, double exponent) { return std::pow(x, exponent); }
Value power_of(double x, Value exponent) { return ir::exp(std::log(x) * exponent); }
double fill(double, double value) { return value; }
Value fill(Value, double value) { return number(value); }

// Reads the durations of a call as steps.
struct DurationReader {
  CallReader& call;
  const RunLength& length;
  const std::string& where;

  double steps(const std::string& text) const {
    const config::Duration duration = config::parse_duration(text, where);
    return static_cast<double>(config::to_steps(duration, length.batch, length.examples_per_epoch, length.total_steps, where));
  }
  double read(std::string_view name, const std::string& fallback) const { return steps(call.text(name, fallback)); }
};

std::vector<double> read_milestones(const DurationReader& durations, const std::string& text) {
  std::string_view list = trim(text);
  if (list.size() < 2 || list.front() != '[' || list.back() != ']') {
    durations.call.fail("`milestones` must be a list of durations", "write milestones=[30 epochs, 60 epochs]");
  }
  std::vector<double> milestones;
  for (const std::string& part : split(list.substr(1, list.size() - 2), ',')) {
    milestones.push_back(durations.steps(std::string(trim(part))));
  }
  if (!std::is_sorted(milestones.begin(), milestones.end())) durations.call.fail("`milestones` must not fall");
  return milestones;
}

}  // namespace

Schedule Schedule::parse(const std::string& text, const RunLength& length, const std::string& where) {
  const bool bare = parse_number(text).has_value();
  const Call call = parse_call(bare ? "constant(" + text + ")" : text, where);
  static constexpr std::pair<const char*, Kind> kKinds[] = {{"constant", Kind::kConstant}, {"linear", Kind::kPolynomial},
                                                            {"cosine", Kind::kCosine},     {"polynomial", Kind::kPolynomial},
                                                            {"rsqrt", Kind::kRsqrt},       {"step", Kind::kStep}};
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& k) { return call.name == k.first; });
  if (kind == std::end(kKinds)) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : kKinds) names.push_back(name);
    throw usage_error(fmt::format("there is no schedule `{}`", call.name), where, suggest_name(call.name, names));
  }

  CallReader reader(call, where);
  const DurationReader durations{reader, length, where};
  Schedule s;
  s.kind_ = kind->second;
  s.total_ = static_cast<double>(length.total_steps);
  s.base_ = reader.number("lr");
  if (!(s.base_ > 0) || !std::isfinite(s.base_)) reader.fail(fmt::format("`lr` must be above 0, and is {}", s.base_));
  if (call.name == "polynomial") s.power_ = reader.number("power", 2);
  if (s.kind_ == Kind::kPolynomial || s.kind_ == Kind::kCosine) s.min_ = reader.number("min", 0);
  if (s.kind_ == Kind::kRsqrt) {
    s.timescale_ = durations.read("timescale", "10000 steps");
    s.shift_ = durations.read("shift", "0 steps");
    if (s.timescale_ <= 0) reader.fail("`timescale` must be above 0");
  }
  if (s.kind_ == Kind::kStep) {
    s.gamma_ = reader.number("gamma", 0.1);
    if (!(s.gamma_ > 0)) reader.fail("`gamma` must be above 0");
    s.every_ = durations.read("every", "0 steps");
    if (reader.has("milestones")) s.milestones_ = read_milestones(durations, reader.text("milestones"));
    if ((s.every_ > 0) == !s.milestones_.empty()) {
      reader.fail("give either `every` or `milestones`", "for example every=30 epochs, or milestones=[30 epochs, 60 epochs]");
    }
  }
  s.warmup_ = durations.read("warmup", "0 steps");
  s.warmup_start_ = reader.number("warmup_start", 0);
  s.cooldown_ = durations.read("cooldown", "0 steps");
  reader.finish();
  if (s.min_ < 0 || s.min_ > s.base_) reader.fail(fmt::format("`min` must lie in [0, lr], and is {}", s.min_));
  if (s.power_ <= 0) reader.fail("`power` must be above 0");
  if (s.warmup_start_ < 0) reader.fail("`warmup_start` must not be negative");
  if (s.warmup_ + s.cooldown_ > s.total_) {
    reader.fail(fmt::format("warm-up ({:.0f} steps) and cool-down ({:.0f}) are longer than the run ({:.0f} steps)", s.warmup_,
                            s.cooldown_, s.total_),
                "shorten them, or lengthen `total`; a share such as warmup=5 % fits any length");
  }
  return s;
}

template <class T>
T Schedule::decay(const T& step) const {
  switch (kind_) {
    case Kind::kConstant: return fill(step, base_);
    case Kind::kPolynomial:
    case Kind::kCosine: {
      const double span = std::max(total_ - warmup_, 1.0);
      const T progress = at_most(at_least((step - warmup_) / span, 0), 1);
      const T left = kind_ == Kind::kCosine ? 0.5 * (1.0 + cosine(std::numbers::pi * progress)) : raise(1.0 - progress, power_);
      return min_ + (base_ - min_) * left;
    }
    case Kind::kRsqrt: return base_ * reciprocal_sqrt(1.0 + (at_least(step - warmup_, 0) + shift_) / timescale_);
    case Kind::kStep: {
      // Half a step keeps the quotient of a multiple of `every` from rounding to just below it.
      if (every_ > 0) return base_ * power_of(gamma_, round_down((step + 0.5) / every_));
      T drops = fill(step, 0);
      for (const double milestone : milestones_) drops = drops + reached(step, milestone);
      return base_ * power_of(gamma_, drops);
    }
  }
  TESSERA_CHECK(false, "schedule kind");
  return step;
}

template <class T>
T Schedule::rate(const T& step) const {
  T rate = decay(step);
  if (warmup_ > 0) {
    const double start = warmup_start_ / base_;
    rate = rate * (start + (1 - start) * at_most((step + 1.0) / warmup_, 1));
  }
  if (cooldown_ > 0) rate = rate * at_most((total_ - step) / cooldown_, 1);
  return rate;
}

double Schedule::at(int64_t step) const { return rate(static_cast<double>(step)); }
ir::Value Schedule::at(ir::Value step) const { return rate(ir::convert(step, DType::kF32)); }

}  // namespace tessera::optim
