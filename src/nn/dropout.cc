#include "nn/dropout.h"

#include "base/error.h"
#include "ir/ops.h"
#include "ir/random.h"

namespace tessera::nn {

ir::Value dropout(const Scope& scope, ir::Value x, double rate) {
  TESSERA_CHECK(rate >= 0 && rate < 1, "dropout rate {} in {}", rate, scope.path());
  if (rate == 0 || !scope.random()) return x;
  const ir::NameScope named(scope.name());
  const ir::Value keep = ir::bernoulli(scope.key(), 1 - rate, x.dims(), ir::first_row(scope.processes(), x.dim(0)));
  return ir::select(keep, x / (1 - rate), ir::zeros_like(x));
}

ir::Value drop_path(const Scope& scope, ir::Value x, int64_t batch, ir::Value rate) {
  const ir::NameScope named(scope.name());
  const ir::Value draws = ir::random_uniform(scope.key(), {batch}, 0, 1, ir::first_row(scope.processes(), batch));
  const ir::Value keep = ir::compare(ir::Compare::kGe, draws, rate);
  const ir::Value factor = ir::select(keep, 1.0 / (1.0 - rate), ir::constant(0, DType::kF32));
  const int64_t rows = x.dim(0) / batch;
  Dims dims(x.dims().size(), 1);
  dims[0] = batch * rows;
  const ir::Value by_row = ir::reshape(ir::broadcast_in_dim(factor, {batch, rows}, {0}), dims);
  return x * ir::convert(by_row, x.dtype());
}

}  // namespace tessera::nn
