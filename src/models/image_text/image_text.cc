#include "models/image_text/image_text.h"

#include "ir/ops.h"

namespace tessera::models {

using ir::Value;

Value ImageText::trace(const nn::Scope& scope) const {
  const Value images = embed_images(scope, blank_images(input()));
  const Value texts = embed_texts(scope, ir::zeros({DType::kI32, {1, input().tokens}}));
  return similarities(*this, scope, images, texts);
}

Value similarities(const ImageText& model, const nn::Scope& scope, Value image_vectors, Value text_vectors) {
  Value x = ir::dot_general(image_vectors, text_vectors, {{}, {}, {1}, {1}});
  x = nn::shard(scope, x, {nn::Along::kBatch}) * model.temperature(scope);
  const Value bias = model.bias(scope);
  return bias ? x + bias : x;
}

}  // namespace tessera::models
