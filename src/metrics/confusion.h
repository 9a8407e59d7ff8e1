#pragma once
// What became of the examples of each class.

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::metrics {

class Confusion {
 public:
  explicit Confusion(int64_t classes);

  // `predicted` may be classes(), which is no class: an example without an answer.
  void add(int32_t label, int32_t predicted);

  int64_t classes() const { return classes_; }
  int64_t at(int64_t label, int64_t predicted) const { return counts_[place(label, predicted)]; }
  int64_t of_class(int64_t label) const;  // examples
  // Examples of the class that were given it, as a share; NaN for a class without examples.
  double recall(int64_t label) const;
  // Examples given the class that are of it, as a share; NaN for a class that was never given.
  double precision(int64_t predicted) const;

 private:
  size_t place(int64_t label, int64_t predicted) const { return static_cast<size_t>(label * (classes_ + 1) + predicted); }
  int64_t classes_;
  std::vector<int64_t> counts_;  // [label, predicted]
};

// One cell of the matrix: `count` examples of class `label` were given class `predicted`, which may be the number of classes:
// no answer.
struct ConfusionCell {
  int32_t label = 0, predicted = 0;
  int64_t count = 0;
  bool operator==(const ConfusionCell&) const = default;
};
// The cells with examples, by label, then by prediction: for any number of classes no more than there are examples.
std::vector<ConfusionCell> confusion_cells(std::span<const int32_t> labels, std::span<const int32_t> predicted);

// Share of the examples that have labels whose prediction is among them, as in "Are we done with ImageNet?" (ReaL labels);
// examples without labels don't count. NaN when none has any.
class MultiLabelAccuracy {
 public:
  void add(std::span<const int32_t> labels, int32_t predicted);
  double value() const;
  int64_t counted() const { return counted_; }

 private:
  int64_t counted_ = 0, right_ = 0;
};

}  // namespace tessera::metrics
