#include "nn/blocks/mlp.h"

#include "ir/functions.h"
#include "nn/blocks/fused_block.h"
#include "nn/dense.h"
#include "nn/dropout.h"

namespace tessera::nn {

ir::Value mlp(const Scope& scope, ir::Value x, const MlpOptions& options) {
  const ir::NameScope named(scope.name());
  if (fused_mlp_fits(scope, x, options, ir::DenseInput::kPlain)) return fused_mlp(scope, x, options);
  const DenseOptions layer{options.bias, options.kernel_init, options.bias_init};
  ir::Value y = shard(scope, dense(scope / "fc1", x, options.hidden, layer), {Along::kBatch, Along::kTensor});
  y = ir::checkpoint_name(y, "fc1");
  y = options.activation == Activation::kGelu ? ir::gelu_exact(y) : ir::gelu_tanh(y);
  y = dropout(scope / "drop1", y, options.dropout);
  y = ir::checkpoint_name(shard(scope, dense(scope / "fc2", y, x.dim(-1), layer), {Along::kBatch}), "fc2");
  return options.dropout_output ? dropout(scope / "drop2", y, options.dropout) : y;
}

}  // namespace tessera::nn
