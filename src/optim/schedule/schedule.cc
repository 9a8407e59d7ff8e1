#include "optim/schedule/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ir/functions.h"
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
double hyperbolic_tangent(double x) { return std::tanh(x); }
Value hyperbolic_tangent(Value x) { return ir::tanh(x); }
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
double entry(const std::vector<float>& table, double index) {
  return static_cast<double>(table[std::min(static_cast<size_t>(index), table.size() - 1)]);
}
Value entry(const std::vector<float>& table, Value index) {
  return ir::take(ir::constant_f32({static_cast<int64_t>(table.size())}, table), ir::convert(index, DType::kI32));
}

// 0 up to the end of a half wave, 1 after it.
template <class T>
T half_wave(const T& progress) {
  return 0.5 * (1.0 - cosine(std::numbers::pi * at_most(at_least(progress, 0), 1)));
}

}  // namespace

template <class T>
T Schedule::cyclic(const T& step) const {
  const T t = at_least(step - begin(), 0);
  // What changes with the cycle is a sum of its jumps.
  T start = fill(step, 0), length = fill(step, cycles_[0].length), lr = fill(step, cycles_[0].lr);
  for (size_t i = 1; i < cycles_.size(); ++i) {
    const T begun = reached(t, cycles_[i].start);
    start = start + begun * (cycles_[i].start - cycles_[i - 1].start);
    length = length + begun * (cycles_[i].length - cycles_[i - 1].length);
    lr = lr + begun * (cycles_[i].lr - cycles_[i - 1].lr);
  }
  const T p = at_most((t - start) / length, 1);
  T left = fill(step, 0);
  if (kind_ == Kind::kCosine) left = 0.5 * (1.0 + cosine(std::numbers::pi * raise(p, k_)));
  if (kind_ == Kind::kPolynomial) left = raise(1.0 - raise(p, k_), power_);
  if (kind_ == Kind::kTanh) left = 0.5 * (1.0 - hyperbolic_tangent(lower_ + (upper_ - lower_) * p));
  const T over = reached(t, cycles_.back().start + cycles_.back().length);
  return min_ + (lr - min_) * left * (1.0 - over);
}

template <class T>
T Schedule::stable(const T& step) const {
  const T t = at_least(step - warmup_, 0);
  T rate = fill(step, base_);
  if (timescale_ > 0) rate = at_least(base_ * reciprocal_sqrt(1.0 + t / timescale_), min_);
  const T q = at_most(at_least((t - (total_ - warmup_ - decay_steps_)) / decay_steps_, 0), 1);
  T left = 1.0 - q;
  if (shape_ == Shape::kCosine) left = 0.5 * (1.0 + cosine(std::numbers::pi * q));
  if (shape_ == Shape::kOneMinusSqrt) left = 1.0 - raise(q, 0.5);
  return min_ + (rate - min_) * left;
}

template <class T>
T Schedule::one_cycle(const T& step, double first, double top, double last) const {
  const T up = half_wave(step / at_least(rise_, 1e-9)), down = half_wave((step - rise_) / (total_ - rise_));
  return first + (top - first) * up + (last - top) * down;
}

template <class T>
T Schedule::stepped(const T& step) const {
  const T t = warmup_mode_ == Warmup::kPrefix ? at_least(step - warmup_, 0) : step;
  // Half a step keeps the quotient of a multiple of `every` from rounding to just below it.
  if (every_ > 0) return base_ * power_of(gamma_, round_down((t + 0.5) / every_));
  T drops = fill(step, 0), factor = fill(step, 1);
  for (size_t i = 0; i < milestones_.size(); ++i) {
    const T passed = reached(t, milestones_[i]);
    drops = drops + passed;
    if (!factors_.empty()) factor = factor + passed * (factors_[i] - (i == 0 ? 1.0 : factors_[i - 1]));
  }
  return factors_.empty() ? base_ * power_of(gamma_, drops) : base_ * factor;
}

template <class T>
T Schedule::decay(const T& step) const {
  switch (kind_) {
    case Kind::kConstant: return fill(step, base_);
    case Kind::kPolynomial:
    case Kind::kCosine:
    case Kind::kTanh: return cyclic(step);
    case Kind::kRsqrt: return base_ * reciprocal_sqrt(1.0 + (at_least(step - warmup_, 0) + shift_) / timescale_);
    case Kind::kStep: return stepped(step);
    case Kind::kStable: return stable(step);
    case Kind::kExponential: return base_ * power_of(end_ / base_, at_most(step / length_, 1));
    case Kind::kOneCycle: return one_cycle(step, first_, base_, last_);
  }
  TESSERA_CHECK(false, "schedule kind");
  return step;
}

// How many `hold`s are over.
template <class T>
T Schedule::held(const T& step) const {
  return hold_ > 1 ? round_down((step + 0.5) / hold_) : step;
}

template <class T>
T Schedule::rate(const T& step) const {
  const T part = held(step);
  const T t = hold_ > 1 ? part * hold_ : step;
  T rate = decay(t);
  if (warmup_ > 0 && (warmup_mode_ == Warmup::kScale || warmup_mode_ == Warmup::kScaleFrom0)) {
    const double start = warmup_start_ / base_;
    rate = rate * (start + (1 - start) * at_most((t + (warmup_mode_ == Warmup::kScale ? 1.0 : 0.0)) / warmup_, 1));
  } else if (warmup_ > 0) {
    // timm's tanh, far below lr at step W already, is what its warm-up leads to.
    const double top = kind_ == Kind::kTanh && warmup_mode_ == Warmup::kOverlap ? decay(warmup_) : base_;
    const T done = reached(t, warmup_);
    rate = rate * done + (warmup_start_ + t * ((top - warmup_start_) / warmup_)) * (1.0 - done);
  }
  if (!noise_.empty()) rate = rate * (1.0 + entry(noise_, part));
  if (cooldown_ > 0) rate = rate * at_most((total_ - t) / cooldown_, 1);
  return rate;
}

template <class T>
T Schedule::started(const T& step) const {
  return start_ > 0 ? rate(at_least(step - start_, 0)) * reached(step, start_) : rate(step);
}

template <class T>
T Schedule::momentum(const T& step) const {
  TESSERA_CHECK(cycles_momentum(), "a schedule of the rate alone");
  const T part = held(at_least(step - start_, 0));
  return one_cycle(hold_ > 1 ? part * hold_ : part, end_momentum_, top_momentum_, end_momentum_);
}

double Schedule::momentum_at(int64_t step) const { return momentum(static_cast<double>(step)); }
ir::Value Schedule::momentum_at(ir::Value step) const { return momentum(ir::convert(step, DType::kF32)); }

double Schedule::at(int64_t step) const { return started(static_cast<double>(step)); }
ir::Value Schedule::at(ir::Value step) const { return started(ir::convert(step, DType::kF32)); }

}  // namespace tessera::optim
