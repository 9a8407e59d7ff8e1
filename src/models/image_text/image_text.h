#pragma once

#include "models/model.h"

namespace tessera::models {

// A model that places images and texts in one space, where an image is near its texts.
class ImageText : public Model {
 public:
  const ImageText* image_text() const final { return this; }
  // Unit vectors, f32 [rows, dimensions]: of images as in features(), and of token ids i32 [rows, input().tokens].
  virtual ir::Value embed_images(const nn::Scope& scope, ir::Value images) const = 0;
  virtual ir::Value embed_texts(const nn::Scope& scope, ir::Value texts) const = 0;

  // What the products of these vectors are multiplied by, f32 [1], above 0; and what is then added, f32 [1], none where the
  // model has no bias.
  virtual ir::Value temperature(const nn::Scope& scope) const = 0;
  virtual ir::Value bias(const nn::Scope& scope) const = 0;

  // An image's embedding.
  ir::Value features(const nn::Scope& scope, ir::Value images) const override { return embed_images(scope, images); }
  // The similarity of an image and a text.
  ir::Value trace(const nn::Scope& scope) const override;
};

// How alike images and texts are, f32 [images, texts]: temperature times the products of their embeddings, plus bias where the
// model has one. Over a mesh the rows follow the batch, whatever device the texts are on.
ir::Value similarities(const ImageText& model, const nn::Scope& scope, ir::Value image_vectors, ir::Value text_vectors);

}  // namespace tessera::models
