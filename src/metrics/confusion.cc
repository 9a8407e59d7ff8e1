#include "metrics/confusion.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace tessera::metrics {
namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Confusion::Confusion(int64_t classes) : classes_(classes), counts_(static_cast<size_t>(classes * (classes + 1))) {}

void Confusion::add(int32_t label, int32_t predicted) {
  TESSERA_CHECK(label >= 0 && label < classes_ && predicted >= 0 && predicted <= classes_, "{} as {}", label, predicted);
  ++counts_[place(label, predicted)];
}

int64_t Confusion::of_class(int64_t label) const {
  int64_t sum = 0;
  for (int64_t c = 0; c <= classes_; ++c) sum += at(label, c);
  return sum;
}

double Confusion::recall(int64_t label) const { return share(at(label, label), of_class(label)); }

double Confusion::precision(int64_t predicted) const {
  int64_t given = 0;
  for (int64_t c = 0; c < classes_; ++c) given += at(c, predicted);
  return share(at(predicted, predicted), given);
}

std::vector<ConfusionCell> confusion_cells(std::span<const int32_t> labels, std::span<const int32_t> predicted) {
  TESSERA_CHECK(labels.size() == predicted.size(), "{} labels and {} predictions", labels.size(), predicted.size());
  std::vector<std::pair<int32_t, int32_t>> pairs;
  pairs.reserve(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) pairs.emplace_back(labels[i], predicted[i]);
  std::ranges::sort(pairs);
  std::vector<ConfusionCell> cells;
  for (const auto& [label, given] : pairs) {
    if (cells.empty() || cells.back().label != label || cells.back().predicted != given) cells.push_back({label, given, 0});
    ++cells.back().count;
  }
  return cells;
}

void MultiLabelAccuracy::add(std::span<const int32_t> labels, int32_t predicted) {
  if (labels.empty()) return;
  ++counted_;
  right_ += std::find(labels.begin(), labels.end(), predicted) != labels.end();
}

double MultiLabelAccuracy::value() const { return share(right_, counted_); }

}  // namespace tessera::metrics
