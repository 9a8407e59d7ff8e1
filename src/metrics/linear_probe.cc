#include "metrics/linear_probe.h"

#include <lbfgs.h>

#include "base/error.h"
#include "metrics/linear.h"

namespace tessera::metrics {
namespace {

using Eigen::Index;

// Its variables: weights [classes, width], then the bias [classes].
class Loss {
 public:
  Loss(RowMatrix x, const std::vector<int32_t>& labels, int64_t classes, double c)
      : x_(std::move(x)), labels_(labels), classes_(classes), c_(c) {}

  // The objective at `point`, and its gradient.
  double operator()(const double* point, double* gradient) const {
    const Index width = x_.cols();
    const Eigen::Map<const RowMatrix> weights(point, classes_, width);
    const Eigen::Map<const Eigen::RowVectorXd> bias(point + classes_ * width, classes_);
    RowMatrix scores = (x_ * weights.transpose()).rowwise() + bias;
    double loss = 0;
    // Scores become probabilities less the targets.
    for (Index i = 0; i < scores.rows(); ++i) {
      const Index label = labels_[static_cast<size_t>(i)];
      const double most = scores.row(i).maxCoeff(), own = scores(i, label);
      scores.row(i) = (scores.row(i).array() - most).exp();
      const double sum = scores.row(i).sum();
      loss += std::log(sum) + most - own;
      scores.row(i) /= sum;
      scores(i, label) -= 1;
    }
    Eigen::Map<RowMatrix>(gradient, classes_, width) = c_ * (scores.transpose() * x_) + weights;
    Eigen::Map<Eigen::RowVectorXd>(gradient + classes_ * width, classes_) = c_ * scores.colwise().sum();
    return c_ * loss + 0.5 * weights.squaredNorm();
  }

 private:
  RowMatrix x_;
  const std::vector<int32_t>& labels_;
  int64_t classes_;
  double c_;
};

int count_iteration(void* instance, const double*, const double*, double, double, double, double, int, int k, int) {
  static_cast<std::pair<const Loss*, int>*>(instance)->second = k;
  return 0;
}

}  // namespace

LinearProbe fit_linear_probe(const LabelledFeatures& train, int64_t classes, const LinearProbeOptions& options) {
  RowMatrix x = as_matrix(train.features).cast<double>();
  Columns columns{Eigen::RowVectorXd::Zero(x.cols()), Eigen::RowVectorXd::Ones(x.cols())};
  if (options.standardise) {
    columns = column_statistics(x);
    columns.deviation = (columns.deviation.array() > 0).select(columns.deviation, 1.0);
    x = (x.rowwise() - columns.mean).array().rowwise() / columns.deviation.array();
  }
  const Index width = x.cols();
  std::vector<double> point(static_cast<size_t>(classes * (width + 1)), 0.0);
  const Loss loss(std::move(x), train.labels, classes, options.c);
  std::pair<const Loss*, int> instance(&loss, 0);
  lbfgs_parameter_t parameters;
  lbfgs_parameter_init(&parameters);
  parameters.epsilon = 1e-7;
  parameters.max_iterations = options.max_iterations;
  const auto evaluate = [](void* p, const double* at, double* gradient, int, double) {
    return (*static_cast<std::pair<const Loss*, int>*>(p)->first)(at, gradient);
  };
  const int status =
      lbfgs(static_cast<int>(point.size()), point.data(), nullptr, evaluate, count_iteration, &instance, &parameters);

  LinearProbe probe{width, classes, {}, {}, instance.second, status == LBFGS_SUCCESS || status == LBFGS_ALREADY_MINIMIZED};
  // W ((x - m) / s) + b is (W / s) x + (b - (W / s) m).
  RowMatrix weights = Eigen::Map<const RowMatrix>(point.data(), classes, width);
  weights = weights.array().rowwise() / columns.deviation.array();
  const Eigen::VectorXd bias =
      Eigen::Map<const Eigen::VectorXd>(point.data() + classes * width, classes) - weights * columns.mean.transpose();
  probe.weights.assign(weights.data(), weights.data() + weights.size());
  probe.bias.assign(bias.data(), bias.data() + bias.size());
  return probe;
}

std::vector<int32_t> probe_classes(const LinearProbe& probe, const Features& test) {
  TESSERA_CHECK(probe.width == test.width, "{} and {}", probe.width, test.width);
  const Eigen::Map<const RowMatrix> weights(probe.weights.data(), probe.classes, probe.width);
  const Eigen::Map<const Eigen::RowVectorXd> bias(probe.bias.data(), probe.classes);
  const RowMatrix scores = (as_matrix(test).cast<double>() * weights.transpose()).rowwise() + bias;
  std::vector<int32_t> predicted;
  for (Index i = 0; i < scores.rows(); ++i) predicted.push_back(largest(scores.row(i)));
  return predicted;
}

}  // namespace tessera::metrics
