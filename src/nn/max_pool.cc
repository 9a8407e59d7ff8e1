#include "nn/max_pool.h"

#include "ir/composite.h"
#include "ir/composites.h"
#include "ir/functions.h"

namespace tessera::nn {

ir::Value max_pool(const Scope& scope, ir::Value x, int64_t window, int64_t stride, int64_t padding) {
  const auto pool = [=](const ir::Values& v) -> ir::Values { return {ir::max_pool2d(v[0], window, stride, padding)}; };
  return ir::composite(scope.target(), {"max_pool", ir::Window{window, stride, padding}, pool}, {x})[0];
}

}  // namespace tessera::nn
