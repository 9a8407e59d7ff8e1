#include "metrics/multi_label.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"

namespace tessera::metrics {
namespace {

double ratio(int64_t part, int64_t whole) { return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole); }

// Calls body(class, its column) for each column of `rows`, on all cores.
template <class Body>
void for_each_class(const Features& rows, const Body& body) {
  parallel_for(rows.width, thread_count(0, rows.width), [&](int64_t c, int) {
    std::vector<double> column;
    for (int64_t i = 0; i < rows.rows(); ++i) column.emplace_back(rows.row(i)[static_cast<size_t>(c)]);
    body(static_cast<size_t>(c), std::move(column));
  });
}

std::vector<double> of_classes(const std::vector<ClassScores>& classes, double Ranking::*score) {
  std::vector<double> out;
  for (const ClassScores& one : classes) out.push_back(one.ranking.*score);
  return out;
}

// Of each row the logarithm of the sum of exp(logit).
std::vector<double> log_sums(const Features& logits) {
  std::vector<double> out;
  for (int64_t i = 0; i < logits.rows(); ++i) {
    const std::span<const float> row = logits.row(i);
    const double top = *std::ranges::max_element(row);
    double sum = 0;
    for (const float logit : row) sum += std::exp(double{logit} - top);
    out.push_back(top + std::log(sum));
  }
  return out;
}

}  // namespace

double sigmoid(double logit) { return 1 / (1 + std::exp(-logit)); }

double ClassScores::precision() const { return ratio(right, given); }
double ClassScores::recall() const { return ratio(right, examples); }
double ClassScores::f1() const { return ratio(2 * right, examples + given); }

MultiLabelScores::MultiLabelScores(const Features& logits, std::span<const uint8_t> multi_hot, double threshold)
    : classes_(static_cast<size_t>(logits.width)) {
  TESSERA_CHECK(multi_hot.size() == logits.values.size(), "{} labels of {} logits", multi_hot.size(), logits.values.size());
  for_each_class(logits, [&](size_t c, const std::vector<double>& column) {
    ClassScores& out = classes_[c];
    std::vector<uint8_t> of_class(column.size());
    for (size_t i = 0; i < column.size(); ++i) {
      of_class[i] = multi_hot[i * classes_.size() + c];
      const bool given = sigmoid(column[i]) > threshold;
      out.examples += of_class[i];
      out.given += given;
      out.right += given && of_class[i] != 0;
    }
    out.ranking = rank(column, of_class);
  });
}

double MultiLabelScores::mean_average_precision() const {
  return mean_of_defined(of_classes(classes_, &Ranking::average_precision));
}

double MultiLabelScores::auc() const { return mean_of_defined(of_classes(classes_, &Ranking::auc)); }

double MultiLabelScores::f1_micro() const {
  ClassScores all;
  for (const ClassScores& one : classes_) all.examples += one.examples, all.given += one.given, all.right += one.right;
  return all.f1();
}

double MultiLabelScores::f1_macro() const {
  double sum = 0;
  for (const ClassScores& one : classes_) sum += one.f1();
  return sum / static_cast<double>(classes_.size());
}

double one_vs_rest_auc(const Features& logits, std::span<const int32_t> labels) {
  TESSERA_CHECK(logits.rows() == std::ssize(labels), "{} labels of {} rows", labels.size(), logits.rows());
  std::vector<double> scores(static_cast<size_t>(logits.width));
  const std::vector<double> sums = log_sums(logits);
  for_each_class(logits, [&](size_t c, std::vector<double> column) {
    std::vector<uint8_t> of_class;
    for (size_t i = 0; i < column.size(); ++i) {
      column[i] -= sums[i];  // log p, which tells apart what p rounds to 1
      of_class.push_back(static_cast<size_t>(labels[i]) == c);
    }
    scores[c] = rank(column, of_class).auc;
  });
  return mean_of_defined(scores);
}

}  // namespace tessera::metrics
