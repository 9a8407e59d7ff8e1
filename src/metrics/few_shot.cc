#include "metrics/few_shot.h"

#include <Eigen/Cholesky>

#include "base/error.h"
#include "base/rng.h"
#include "metrics/linear.h"

namespace tessera::metrics {
namespace {

constexpr double kBias = 100;

// Standardised, with the feature for the bias.
RowMatrix prepared(const Features& features, const Columns& columns) {
  RowMatrix x(features.rows(), features.width + 1);
  x.leftCols(features.width) =
      (as_matrix(features).cast<double>().rowwise() - columns.mean).array().rowwise() / (columns.deviation.array() + 1e-5);
  x.rightCols(1).setConstant(kBias);
  return x;
}

// (X'X + l2 I)^-1 X'Y, or the same as X' (XX' + l2 I)^-1 Y where there are fewer rows than columns.
RowMatrix ridge(const RowMatrix& x, const RowMatrix& y, double l2) {
  const bool tall = x.rows() >= x.cols();
  RowMatrix gram = tall ? RowMatrix(x.transpose() * x) : RowMatrix(x * x.transpose());
  gram.diagonal().array() += l2;
  const Eigen::LLT<RowMatrix> factors(gram);
  if (tall) return factors.solve(x.transpose() * y);
  return x.transpose() * factors.solve(y);
}

}  // namespace

std::vector<int64_t> draw_shots(const std::vector<int32_t>& labels, const std::vector<std::string>& classes, int64_t shots,
                                uint64_t seed, const std::string& where) {
  std::vector<std::vector<int64_t>> of_class(classes.size());
  for (size_t i = 0; i < labels.size(); ++i) of_class.at(static_cast<size_t>(labels[i])).push_back(static_cast<int64_t>(i));
  std::vector<int64_t> drawn;
  for (size_t c = 0; c < classes.size(); ++c) {
    const std::vector<int64_t>& rows = of_class[c];
    if (static_cast<int64_t>(rows.size()) < shots) {
      throw data_error(fmt::format("the class `{}` has {} examples, too few for {} shots", classes[c], rows.size(), shots),
                       where, "ask for fewer shots, or give a larger training set");
    }
    const uint64_t key = Rng(seed, c).next() | uint64_t{Rng(seed, c, 1).next()} << 32;
    for (int64_t i = 0; i < shots; ++i) drawn.push_back(rows[permute(static_cast<uint64_t>(i), rows.size(), key)]);
  }
  return drawn;
}

std::vector<int32_t> least_squares_classes(const LabelledFeatures& train, const Features& test, int64_t classes, double l2) {
  TESSERA_CHECK(train.features.width == test.width && train.features.rows() == static_cast<int64_t>(train.labels.size()));
  const Columns columns = column_statistics(as_matrix(train.features).cast<double>());
  RowMatrix targets = RowMatrix::Constant(train.features.rows(), classes, -1);
  for (size_t i = 0; i < train.labels.size(); ++i) targets(static_cast<Eigen::Index>(i), train.labels[i]) = 1;
  const RowMatrix weights = ridge(prepared(train.features, columns), targets, l2);
  const RowMatrix scores = prepared(test, columns) * weights;
  std::vector<int32_t> predicted;
  for (Eigen::Index i = 0; i < scores.rows(); ++i) predicted.push_back(largest(scores.row(i)));
  return predicted;
}

}  // namespace tessera::metrics
