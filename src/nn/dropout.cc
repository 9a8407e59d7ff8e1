#include "nn/dropout.h"

#include <algorithm>

#include "base/error.h"
#include "ir/functions.h"
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

ir::Value drop_block(const Scope& scope, ir::Value x, const DropBlockOptions& options) {
  TESSERA_CHECK(x.rank() == 4 && options.size > 0, "drop block of {}", to_string(x.dims()));
  if (options.rate == 0 || !scope.random()) return x;
  const ir::NameScope named(scope.name());
  const int64_t batch = x.dim(0), height = std::min(options.size, x.dim(1)), width = std::min(options.size, x.dim(2));
  const auto pixels = [](int64_t h, int64_t w) { return static_cast<double>(h) * static_cast<double>(w); };
  const double gamma = options.gamma_scale * options.rate * pixels(x.dim(1), x.dim(2)) / pixels(height, width) /
                       pixels(x.dim(1) - height + 1, x.dim(2) - width + 1);
  const ir::Value drawn =
      ir::bernoulli(scope.key(), std::min(gamma, 1.0), {batch, x.dim(1), x.dim(2), 1}, ir::first_row(scope.processes(), batch));
  ir::WindowOptions window;
  window.dimensions = {1, height, width, 1};
  window.padding = {{0, 0}, {(height - 1) / 2, height / 2}, {(width - 1) / 2, width / 2}, {0, 0}};
  const ir::Value dropped = ir::reduce_window(ir::Reduce::kMax, ir::convert(drawn, DType::kF32), window);
  const ir::Value keep = ir::stop_gradient(1.0 - dropped);
  // Sums of zeros and ones are exact up to 2^24 pixels, whatever their order.
  const ir::Value kept = ir::sum_over_processes(scope.processes(), ir::sum(keep, {0, 1, 2, 3}));
  const double all = static_cast<double>(batch * scope.processes().count) * pixels(x.dim(1), x.dim(2));
  return x * ir::convert(keep * (all / (kept + 1e-7)), x.dtype());
}

}  // namespace tessera::nn
