#include "nn/blocks/attention_pool.h"

#include "ir/functions.h"
#include "ir/ops.h"
#include "nn/blocks/attention.h"
#include "nn/dense.h"
#include "nn/norm/layer_norm.h"

namespace tessera::nn {

ir::Value attention_pool(const Scope& scope, ir::Value x, int64_t batch, const AttentionPoolOptions& options) {
  const ir::NameScope named(scope.name());
  const int64_t features = x.dim(-1), width = features / options.heads;
  const ir::Value latent = ir::reshape(scope.compute_param("latent", {1, 1, features}, options.latent_init), {1, features});
  const ir::Value q = ir::reshape(dense(scope / "q", latent, features, {true, options.q_init}), {1, options.heads, width});
  const ir::Value queries = ir::broadcast_to(q, {batch, 1, options.heads, width});
  const ir::Values kv = project_heads(scope / "kv", x, batch, {features, options.heads, 2, {true, options.kv_init}});
  const ir::Value mixed = ir::merge_heads(dot_product_attention(scope, queries, kv[0], kv[1]));
  const ir::Value y = dense(scope / "proj", mixed, features, {true, options.proj_init});
  return y + mlp(scope / "mlp", layer_norm(scope / "norm", y, options.epsilon), options.mlp);
}

}  // namespace tessera::nn
