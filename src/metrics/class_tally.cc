#include "metrics/class_tally.h"

#include <limits>

#include "base/error.h"

namespace tessera::metrics {
namespace {

// A mean of what is given with weights.
class Mean {
 public:
  void add(double value, double weight = 1) { sum_ += weight * value, weights_ += weight; }
  double value() const { return sum_ / weights_; }

 private:
  double sum_ = 0, weights_ = 0;
};

}  // namespace

ClassTally::ClassTally(int64_t classes) : classes_(static_cast<size_t>(classes)) {}

void ClassTally::add(int32_t label, int32_t predicted) {
  TESSERA_CHECK(label >= 0 && static_cast<size_t>(label) < classes_.size() && predicted >= 0, "{}, {}", label, predicted);
  ++examples_;
  Counts& counts = classes_[static_cast<size_t>(label)];
  ++counts.examples;
  if (static_cast<size_t>(predicted) < classes_.size()) ++classes_[static_cast<size_t>(predicted)].predictions;
  if (label == predicted) ++counts.right;
}

double ClassTally::f1() const {
  Mean mean;
  for (const Counts& one : classes_) {
    if (one.examples + one.predictions > 0) mean.add(one.f1());
  }
  return mean.value();
}

double ClassTally::weighted_f1() const {
  Mean mean;
  for (const Counts& one : classes_) {
    if (one.examples > 0) mean.add(one.f1(), static_cast<double>(one.examples));
  }
  return mean.value();
}

double ClassTally::kappa() const {
  const auto all = static_cast<double>(examples_);
  double observed = 0, expected = 0;
  for (const Counts& one : classes_) {
    observed += static_cast<double>(one.right) / all;
    expected += static_cast<double>(one.examples) / all * (static_cast<double>(one.predictions) / all);
  }
  return expected < 1 ? (observed - expected) / (1 - expected) : std::numeric_limits<double>::quiet_NaN();
}

double ClassTally::balanced_accuracy() const {
  Mean mean;
  for (const Counts& one : classes_) {
    if (one.examples > 0) mean.add(one.recall());
  }
  return mean.value();
}

}  // namespace tessera::metrics
