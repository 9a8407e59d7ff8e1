#pragma once
// Features as Eigen sees them: private to this folder, so that nobody else compiles Eigen.

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "metrics/features.h"

namespace tessera::metrics {

using RowMatrixF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Eigen::Map<const RowMatrixF> as_matrix(const Features& features) {
  return {features.values.data(), features.rows(), features.width};
}

// The index of the largest value, the lowest of equal ones.
template <class Row>
int32_t largest(const Row& row) {
  int32_t best = 0;
  for (Eigen::Index i = 1; i < row.size(); ++i) {
    if (row[i] > row[best]) best = static_cast<int32_t>(i);
  }
  return best;
}

// Mean and standard deviation (of the population) of each column.
struct Columns {
  Eigen::RowVectorXd mean, deviation;
};
inline Columns column_statistics(const RowMatrix& x) {
  Columns columns{x.colwise().mean(), {}};
  columns.deviation = ((x.rowwise() - columns.mean).array().square().colwise().sum() / static_cast<double>(x.rows())).sqrt();
  return columns;
}

}  // namespace tessera::metrics
