#include "nn/batch_norm.h"

#include "base/error.h"
#include "ir/functions.h"

namespace tessera::nn {
namespace {

using ir::Value;

struct Statistics {
  Value mean, variance;
};

// Of each channel, the last dimension, over the rows of all processes.
Statistics of_batch(Value x, const ir::Processes& processes) {
  Dims others;
  for (int64_t i = 0; i + 1 < x.rank(); ++i) others.push_back(i);
  const double share = 1.0 / static_cast<double>(element_count(x.dims()) / x.dim(-1) * processes.count);
  const auto mean = [&](Value of) { return ir::sum_over_processes(processes, ir::sum(of, others)) * share; };
  const Value center = mean(x);
  return {center, mean(ir::square(x - center))};
}

// One value more of each channel than there is to learn from has no unbiased variance: torch refuses that batch, here it is 0.
double unbiased(Value x, const ir::Processes& processes) {
  const auto count = static_cast<double>(element_count(x.dims()) / x.dim(-1) * processes.count);
  return count > 1 ? count / (count - 1) : 0;
}

}  // namespace

Value batch_norm(const Scope& scope, Value x, const BatchNormOptions& options) {
  const ir::NameScope named(scope.name());
  TESSERA_CHECK(x.rank() == 4, "batch norm of {}", to_string(x.dims()));
  const Dims features = {x.dim(-1)};
  Value wide = ir::convert(x, DType::kF32);
  // Pixels in one row: the norm and its gradient sum over one dimension.
  if (scope.target() && scope.target()->prefers_flat_sums())
    wide = ir::reshape(wide, {x.dim(0) * x.dim(1) * x.dim(2), x.dim(3)});
  Statistics used{scope.buffer("running_mean", features, init::zeros()), scope.buffer("running_var", features, init::ones())};
  const Value batches = scope.buffer("num_batches_tracked", {}, init::zeros());
  if (scope.training()) {
    const Statistics own = of_batch(wide, scope.processes());
    const auto moved = [&](Value running, Value now) { return running * (1 - options.momentum) + now * options.momentum; };
    scope.update("running_mean", moved(used.mean, own.mean));
    scope.update("running_var", moved(used.variance, own.variance * unbiased(x, scope.processes())));
    scope.update("num_batches_tracked", batches + 1.0);
    used = own;
  }
  const Value scale = scope.param("scale", features, options.scale_init) * ir::rsqrt(used.variance + options.epsilon);
  const Value normed = (wide - used.mean) * scale + scope.param("bias", features, init::zeros());
  return ir::convert(ir::reshape(normed, x.dims()), x.dtype());
}

}  // namespace tessera::nn
