#include "models/image_text/captioner.h"

#include "ir/ops.h"

namespace tessera::models {

ir::Value Captioner::trace(const nn::Scope& scope) const {
  return decode(scope, encode(scope, blank_images(input())), ir::zeros({DType::kI32, {1, input().tokens}}));
}

}  // namespace tessera::models
