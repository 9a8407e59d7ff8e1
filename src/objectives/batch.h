#pragma once
// What objectives and evaluators read of a batch.

#include <cstdint>
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

// What a data section has besides images.
struct DataInputs {
  int64_t classes = 0;  // 0: samples have no labels
  std::vector<TokenInput> tokens;
  // Rows of a batch that stand for one image: the first part of a batch has view 0 of all its images, the next one view 1, ….
  int64_t views = 1;
};

// What of it is wanted: these are a program's inputs, images first, in this order.
struct Inputs {
  bool labels = false;
  std::vector<TokenInput> tokens;
  bool images = true;
};

// A batch in the graph, whole or a micro-batch of it: one row for each example.
struct Batch {
  ir::Value images;   // normalised, f32 [B, H, W, 3]
  ir::Value labels;   // i32 [B], where wanted
  ir::Values tokens;  // i32 [B, length] each, those wanted
  // Where training mixes images: the partner's label, and the share of the own one, f32 [B].
  ir::Value partner_labels, own_share;
  // Where the objective has a teacher: its logits for these images, f32 [B, classes], which nothing is differentiated through.
  ir::Value teacher;
};

}  // namespace tessera::objectives
