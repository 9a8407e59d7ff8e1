#pragma once
// Learning-rate schedules: recipe text -> a pure function of the step.
//
//   1e-3                                      the same as constant(1e-3)
//   constant(lr)
//   linear(lr, min=0)                         = polynomial(lr, 1)
//   cosine(lr, min=0)
//   polynomial(lr, power=2, min=0)
//   rsqrt(lr, timescale=10000 steps, shift=0 steps)
//   step(lr, gamma=0.1, every=30 epochs)      or milestones=[30 epochs, 60 epochs]
//
// each also with warmup=DURATION, warmup_start=RATE, cooldown=DURATION (config/duration.h; a percentage is of the whole run).
//
// Steps count from 0; T is their total, W the warm-up, C the cool-down. rate(s) = decay(s) * up(s) * down(s):
//   p(s)     = clip((s - W) / (T - W), 0, 1)                           progress of the decay, which begins after the warm-up
//   linear, polynomial   min + (lr - min) (1 - p)^power
//   cosine               min + (lr - min) (1 + cos(pi p)) / 2
//   rsqrt                lr / sqrt(1 + (max(s - W, 0) + shift) / timescale)
//   step                 lr gamma^floor(s / every)                     or gamma^(milestones <= s)
//   up(s)    = w0 + (1 - w0) min(1, (s + 1) / W)                       w0 = warmup_start / lr
//   down(s)  = min(1, (T - s) / C)
// These are big_vision's formulas (big_vision/utils.py create_learning_rate_schedule: decay over what the warm-up leaves,
// factors multiplied, rsqrt's scale and shift) with one deliberate change: the warm-up counts s + 1 where big_vision, vit_10b
// and timm count s, so that the first step is not spent at rate 0; step W - 1 has the whole rate. `step` counts from the start
// of the run, as timm's StepLRScheduler and MultiStepLRScheduler without warmup_prefix.

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::optim {

// What turns durations into steps.
struct RunLength {
  int64_t total_steps = 1;
  int64_t batch = 1;  // examples a step
  int64_t examples_per_epoch = 1;
};

class Schedule {
 public:
  // A mistake in `text` is a usage Error at `where`.
  static Schedule parse(const std::string& text, const RunLength& length, const std::string& where = {});

  double at(int64_t step) const;         // on the host
  ir::Value at(ir::Value step) const;    // in a graph: integer or float scalar -> f32 scalar
  double base() const { return base_; }  // the rate that the recipe names, > 0

 private:
  enum class Kind { kConstant, kPolynomial, kCosine, kRsqrt, kStep };
  template <class T>
  T rate(const T& step) const;
  template <class T>
  T decay(const T& step) const;

  Kind kind_ = Kind::kConstant;
  double base_ = 0, min_ = 0, power_ = 1, gamma_ = 1, timescale_ = 1, shift_ = 0;
  double total_ = 1, warmup_ = 0, warmup_start_ = 0, cooldown_ = 0, every_ = 0;
  std::vector<double> milestones_;
};

}  // namespace tessera::optim
