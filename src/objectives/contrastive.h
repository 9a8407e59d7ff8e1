#pragma once
// An image's own text against the other texts of the batch, and the other way round.

#include "models/image_text/image_text.h"
#include "objectives/objective.h"

namespace tessera::objectives {

struct ContrastiveOptions {
  std::string loss = "siglip", tokens;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("loss", loss,
          "siglip: each pair of an image and a text by itself, the sigmoid loss; or softmax: which text is the image's, and "
          "which "
          "image the text's, as CLIP");
    field("tokens", tokens, "the texts: what tokenize(…, to=NAME) of data.pp makes; may be left out where it makes one array");
  }
};

// The factory of objectives.def. Every image is compared with every text of the batch, whatever mesh it is spread over. Metric:
// prec@1, whether an image's own text is the nearest of all.
std::shared_ptr<const Objective> make_contrastive(config::Section section, const DataInputs& available);

// Throws a usage Error at a key of `section` unless the model embeds images and texts.
void check_image_text(const models::Model& model, const config::Section& section);
// The model, known to be one.
const models::ImageText& as_image_text(const models::Model& model);

// Of each image, f32 [B]; similarities f32 [B, B], of image and text, own ones on the diagonal.
// -sum_j log sigmoid(z_ij x_ij), z 1 on the diagonal and -1 elsewhere: big_vision's trainers/proj/image_text/siglip.py.
ir::Value sigmoid_contrast(ir::Value similarities);
// Half of the cross-entropy of x_ii among the row x_i., half of it among the column x_.i: big_vision's
// bidirectional_contrastive_loss. A bias changes nothing.
ir::Value softmax_contrast(ir::Value similarities);

}  // namespace tessera::objectives
