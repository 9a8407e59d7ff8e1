#pragma once
// What objectives and evaluators read of a batch.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::objectives {

// Token ids that a data section makes of each sample's texts, under a name.
struct TokenInput {
  std::string name;
  int64_t length = 0;      // of a row
  int64_t vocabulary = 0;  // ids are below it
  int32_t pad = 0;         // fills rows up
};

// How many examples there are of each class.
using ClassSizes = std::optional<std::vector<int64_t>>;

// What a data section has besides images.
struct DataInputs {
  int64_t classes = 0;  // 0: samples have no labels
  std::vector<TokenInput> tokens;
  // Rows of a batch that stand for one image: the first part of a batch has view 0 of all its images, the next one view 1, ….
  int64_t views = 1;
  bool multi_label = false;  // a sample has any number of labels
  int64_t examples = 0;      // 0: not known
  std::vector<std::string> class_names = {};
  // What is asked for where a loss goes by it; it may read all labels. Null where nobody can tell.
  std::function<ClassSizes()> class_sizes = {};

  // Inputs::multi_hot of these labels.
  int64_t multi_hot() const { return multi_label ? classes : 0; }
};

// What of it is wanted: these are a program's inputs, images first, in this order.
struct Inputs {
  bool labels = false;
  std::vector<TokenInput> tokens;
  bool images = true;
  // Of labels: 0 where an image has one, a class; else the classes of a row that says of each whether it is the image's.
  int64_t multi_hot = 0;
};

// A batch in the graph, whole or a micro-batch of it: one row for each example.
struct Batch {
  ir::Value images;   // normalised, f32 [B, H, W, 3]
  ir::Value labels;   // where wanted: i32 [B], or of multi-hot ones u8 [B, classes] of 0 and 1
  ir::Values tokens;  // i32 [B, length] each, those wanted
  // Where training mixes images: the partner's labels, and the share of the own ones, f32 [B].
  ir::Value partner_labels, own_share;
  // Where the objective weighs examples: factors of their losses, f32 [B], which make a mean over the whole batch the weighted
  // one (loss_scale() of objective.h).
  ir::Value loss_scale;
  // Where the objective has a teacher: its logits for these images, f32 [B, classes], which nothing is differentiated through.
  ir::Value teacher;
};

}  // namespace tessera::objectives
