#include "metrics/neighbours.h"

#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "metrics/linear.h"

namespace tessera::metrics {
namespace {

// Test rows compared at once: their similarities to all training rows stay small.
constexpr int64_t kBlock = 64;

RowMatrixF of_length_one(const Features& features) {
  RowMatrixF x = as_matrix(features);
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    const float length = x.row(i).norm();
    if (length > 0) x.row(i) /= length;
  }
  return x;
}

class Votes {
 public:
  Votes(const LabelledFeatures& train, int64_t classes, const NeighbourOptions& options)
      : labels_(train.labels), options_(options), votes_(static_cast<size_t>(classes)), order_(train.labels.size()) {}

  template <class Row>
  int32_t winner(const Row& similarities) {
    const auto k = static_cast<ptrdiff_t>(std::min<int64_t>(options_.k, static_cast<int64_t>(order_.size())));
    std::iota(order_.begin(), order_.end(), Eigen::Index{0});
    const auto nearer = [&](Eigen::Index a, Eigen::Index b) {
      return similarities[a] != similarities[b] ? similarities[a] > similarities[b] : a < b;
    };
    std::partial_sort(order_.begin(), order_.begin() + k, order_.end(), nearer);
    std::fill(votes_.begin(), votes_.end(), 0.0);
    for (ptrdiff_t i = 0; i < k; ++i) {
      const Eigen::Index row = order_[static_cast<size_t>(i)];
      const double weight = options_.temperature > 0 ? std::exp(double{similarities[row]} / options_.temperature) : 1;
      votes_[static_cast<size_t>(labels_[static_cast<size_t>(row)])] += weight;
    }
    return static_cast<int32_t>(std::max_element(votes_.begin(), votes_.end()) - votes_.begin());
  }

 private:
  const std::vector<int32_t>& labels_;
  const NeighbourOptions& options_;
  std::vector<double> votes_;
  std::vector<Eigen::Index> order_;
};

}  // namespace

std::vector<int32_t> neighbour_classes(const LabelledFeatures& train, const Features& test, int64_t classes,
                                       const NeighbourOptions& options) {
  TESSERA_CHECK(train.features.width == test.width && options.k >= 1 && !train.labels.empty());
  const RowMatrixF known = of_length_one(train.features), asked = of_length_one(test);
  std::vector<int32_t> predicted(static_cast<size_t>(test.rows()));
  const int64_t blocks = (test.rows() + kBlock - 1) / kBlock;
  const int threads = thread_count(0, blocks);
  std::vector<Votes> votes(static_cast<size_t>(threads), Votes(train, classes, options));
  parallel_for(blocks, threads, [&](int64_t block, int thread) {
    const int64_t begin = block * kBlock, rows = std::min(kBlock, test.rows() - begin);
    const RowMatrixF similarities = asked.middleRows(begin, rows) * known.transpose();
    for (int64_t i = 0; i < rows; ++i) {
      predicted[static_cast<size_t>(begin + i)] = votes[static_cast<size_t>(thread)].winner(similarities.row(i));
    }
  });
  return predicted;
}

}  // namespace tessera::metrics
