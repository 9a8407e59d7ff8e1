#include "nn/embedding.h"

#include "ir/functions.h"

namespace tessera::nn {

ir::Value embedding(const Scope& scope, ir::Value ids, int64_t rows, int64_t features, const Init& init) {
  const ir::NameScope named(scope.name());
  return ir::convert(ir::take(scope.param("embedding", {rows, features}, init), ids), scope.compute());
}

}  // namespace tessera::nn
