#include "nn/patch_embed.h"

#include "base/error.h"
#include "ir/ops.h"

namespace tessera::nn {

ir::Value patch_embed(const Scope& scope, ir::Value images, int64_t features, int64_t patch, const DenseOptions& options) {
  const ir::NameScope named(scope.name());
  const Dims& in = images.dims();
  TESSERA_CHECK(in.size() == 4 && in[1] % patch == 0 && in[2] % patch == 0, "patches of {} from {}", patch, to_string(in));
  const int64_t batch = in[0], rows = in[1] / patch, columns = in[2] / patch, channels = in[3];
  ir::Value x = ir::convert(images, scope.compute());
  x = ir::transpose(ir::reshape(x, {batch, rows, patch, columns, patch, channels}), {0, 1, 3, 2, 4, 5});
  return dense(scope, ir::reshape(x, {batch * rows * columns, patch * patch * channels}), features, options);
}

}  // namespace tessera::nn
