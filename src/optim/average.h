#pragma once
// A moving average of the weights, kept beside them and evaluated apart: timm's ModelEmaV3. With n the updates done (1 after
// the first one), s = n - start - 1:
//   average <- d average + (1 - d) weights
//   d = 0 where s <= 0 (a copy), else `decay`, with warm-up clamp(1 - (1 + s / gamma)^-power, min_decay, decay)

#include <cstdint>
#include <string>

#include "config/section.h"
#include "ir/graph.h"
#include "optim/schedule/schedule.h"

namespace tessera::optim {

struct AverageOptions {
  double decay = 0.9998;
  bool warmup = false;
  double warmup_gamma = 1;
  double warmup_power = 2.0 / 3;
  double min_decay = 0;
  std::string start = "0 steps";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("decay", decay, "what stays of the average in each update, at most");
    field("warmup", warmup, "let the decay rise: 1 - (1 + updates / warmup_gamma)^-warmup_power");
    field("warmup_gamma", warmup_gamma, "updates over which it begins to rise");
    field("warmup_power", warmup_power, "2/3 for runs of a million steps and more, 3/4 for shorter ones");
    field("min_decay", min_decay, "what it comes to at least");
    field("start", start, "how long the average is but a copy of the weights");
  }
};

class Average {
 public:
  // Reads all of the recipe's `average` section.
  Average(config::Section section, const RunLength& length);
  // The decay of the update after `step` others: integer scalar -> f32 scalar.
  ir::Value decay(ir::Value step) const;
  // The new average, f32.
  static ir::Value update(ir::Value average, ir::Value weights, ir::Value decay);

 private:
  AverageOptions options_;
  double start_ = 0;
};

}  // namespace tessera::optim
