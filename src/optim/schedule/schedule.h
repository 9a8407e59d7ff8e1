#pragma once
// Learning-rate schedules: recipe text -> a pure function of the step. schedule_help() lists the calls and their arguments.
//
// Steps count from 0; T is their total, W the warm-up, C the cool-down. rate(s) = decay(s) with its warm-up * down(s) *
// noise(s):
//   constant             lr
//   linear, polynomial   min + (l - min) (1 - p^k)^power              p = progress in the cycle, l = lr cycle_decay^cycle
//   cosine               min + (l - min) (1 + cos(pi p^k)) / 2
//   tanh                 min + (l - min) (1 - tanh(lower (1 - p) + upper p)) / 2
//   rsqrt                lr / sqrt(1 + (max(s - W, 0) + shift) / timescale)
//   step                 lr gamma^floor(s / every), lr gamma^(milestones <= s), or lr times the last milestone's own factor
//   wsd                  r = lr, or lr / sqrt(1 + (s - W) / timescale); in the last D steps min + (r - min) shape(q), q = 0 … 1
//   flat_cosine          lr, after the flat part falling as a cosine to lr / div_final
//   one_cycle            from lr / div to lr and down to lr / div_final, both as cosines; the optimizer's momentum, where it
//                        cycles, from m0 to m1 and back in the same steps
//   exponential          lr (end / lr)^p, p = s / L, at most 1
//   plateau              lr, times what plateau.h decides
// down(s) is min(1, (T - s) / C), noise(s) 1 + n, from timm's generator, for every `hold` (torch_noise.h).
// The warm-up, by warmup_mode, with w0 = warmup_start:
//   scale         decay(s) * (w0 + (lr - w0) min(1, (s + 1) / W)) / lr; cycles begin after it
//   scale_from_0  the same with s in place of s + 1
//   overlap       s < W: w0 + (lr - w0) s / W; cycles begin at step 0, under it
//   prefix        the same, but cycles (and step's counting) begin at W
// A cycle's length is L mul^i; where no `length` is given the cycles fill the run. After the last one the rate is min. With
// hold = H the rate is that of step floor(s / H) H.
//
// With start = S the rate is 0 in the first S steps, and the schedule is that of a run of the T - S steps after them (its
// shares of the run too). What has it is frozen until then, but for moments, which gather from the first step on.
//
// scale_from_0 is big_vision's convention (big_vision/utils.py create_learning_rate_schedule), overlap and prefix are timm's
// (timm/scheduler; it has w0 = 1e-5 and hold = 1 epoch unless told otherwise). `scale` is big_vision's but for the first step,
// which is not spent at rate 0. timm's milestones count one earlier: its 30 is 29 epochs here. wsd is timm's, flat_cosine and
// one_cycle are fastai's, exponential its SchedExp; torch's OneCycleLR of N steps is one_cycle in a run of N - 1, whose rise is one step shorter.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "optim/schedule/plateau.h"

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
  // Whether it goes through base rates, as a search for one does, rather than below one: an exponential that rises. What is
  // relative to the base rate stays then as it is (UpdateContext::schedule is 1).
  bool sweeps() const { return kind_ == Kind::kExponential && end_ > base_; }
  // Whether it says the optimizer's momentum too; what momentum_at() gives, on the host and in a graph as at().
  bool cycles_momentum() const { return top_momentum_ > 0; }
  double momentum_at(int64_t step) const;
  ir::Value momentum_at(ir::Value step) const;
  // Where scores decide too: what at() gives is to be multiplied by their scale.
  const std::optional<PlateauOptions>& plateau() const { return plateau_; }

 private:
  friend class ScheduleParser;
  enum class Kind { kConstant, kPolynomial, kCosine, kTanh, kRsqrt, kStep, kStable, kOneCycle, kExponential };
  enum class Warmup { kScale, kScaleFrom0, kOverlap, kPrefix };
  enum class Shape { kLinear, kCosine, kOneMinusSqrt };
  struct Cycle {
    double start, length, lr;  // steps from the first cycle's begin
  };

  template <class T>
  T rate(const T& step) const;
  template <class T>
  T started(const T& step) const;
  template <class T>
  T decay(const T& step) const;
  template <class T>
  T cyclic(const T& step) const;
  template <class T>
  T stable(const T& step) const;
  template <class T>
  T one_cycle(const T& step, double first, double top, double last) const;
  template <class T>
  T momentum(const T& step) const;
  template <class T>
  T held(const T& step) const;
  template <class T>
  T stepped(const T& step) const;
  double begin() const { return warmup_mode_ == Warmup::kOverlap ? 0 : warmup_; }

  Kind kind_ = Kind::kConstant;
  double base_ = 0, min_ = 0, start_ = 0, total_ = 1;  // total: from start on
  double warmup_ = 0, warmup_start_ = 0, cooldown_ = 0, hold_ = 1;
  Warmup warmup_mode_ = Warmup::kScale;
  std::vector<Cycle> cycles_;
  double k_ = 1, power_ = 1, lower_ = -7, upper_ = 3;  // of cycles
  double gamma_ = 1, every_ = 0;                       // of step
  std::vector<double> milestones_, factors_;           // of step
  double timescale_ = 0, shift_ = 0;                   // of rsqrt, and of wsd where above 0
  double decay_steps_ = 0;                             // of wsd
  double end_ = 0, length_ = 1;                        // of exponential: its last rate, and the steps to it
  Shape shape_ = Shape::kOneMinusSqrt;                 // of wsd
  double rise_ = 0, first_ = 0, last_ = 0;             // of one_cycle and flat_cosine: steps, rates at both ends
  double end_momentum_ = 0, top_momentum_ = 0;         // of one_cycle: at both ends and at its top; 0: the optimizer's own
  std::vector<float> noise_;                           // for each `hold`
  std::optional<PlateauOptions> plateau_;
};

// All calls with their arguments, a line each.
std::string schedule_help();

// The text of a schedule with another rate: its first number, as cosine(LR, …) and cosine(lr=LR, …) have it.
std::string with_rate(std::string_view schedule, std::string_view rate);

}  // namespace tessera::optim
