#pragma once
// timm's epochs, and what its --sched arguments mean as a schedule of a recipe (timm/scheduler/scheduler_factory.py).

#include <string>

#include "recipe/translate/arguments.h"

namespace tessera::translate {

class TimmSchedule {
 public:
  // `args` must outlive it.
  explicit TimmSchedule(const Arguments& args) : args_(args) {}

  // How often timm's epoch goes through the images: --epoch-repeats, which folders don't heed.
  double passes() const;
  // A duration in timm's epochs: "2 epochs".
  std::string epochs(double count) const;
  // create_scheduler_v2's epochs of the whole run.
  double total_epochs() const;
  // The recipe's optimizer.lr. A usage Error for a --sched that is not there.
  std::string text(double base_rate) const;
  // What to say of a run that ends within its warm-up; empty where none does.
  std::string note(double base_rate) const;

 private:
  bool cycles() const;
  double warmup_epochs() const;
  std::string arguments(const std::string& sched) const;
  std::string noise() const;

  const Arguments& args_;
};

// --eval-metric as a score of the evaluator "val": "val/prec@1".
std::string timm_metric(const Arguments& args);

}  // namespace tessera::translate
