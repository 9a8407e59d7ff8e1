#pragma once
// What the device does to a training batch before the model sees it: mixes rows with their partners, normalises, erases boxes.
// The numbers come from the host, a few a row (image/augment/mixup.h, data/transform/pp.h); noise is drawn here.

#include <optional>

#include "data/transform/pp.h"
#include "image/augment/mixup.h"
#include "ir/graph.h"
#include "ir/processes.h"
#include "objectives/batch.h"

namespace tessera::train {

struct Augmentation {
  enum class Mix { kNone, kTimm, kBigVision };
  Mix mix = Mix::kNone;
  std::optional<data::Erasing> erasing;

  // Columns of the program's argument `augment`, f32 [B, values()]; no such argument when there are none.
  int64_t values() const;
};
Augmentation augmentation_of(const data::Pp& pp, const std::optional<image::Mixup>& mixup);

// A batch in the graph, whole or a micro-batch of it, before normalisation.
struct TrainRows {
  objectives::Batch batch;  // images: 0..255, u8 or f32
  ir::Value boxes;          // f32 [B, boxes, kEraseValues], where boxes are erased

  // Every array that is there, in a fixed order. All have one row for each image.
  template <class Fn>
  void each(Fn&& fn) {
    fn(batch.images);
    if (batch.labels) fn(batch.labels);
    for (ir::Value& tokens : batch.tokens) fn(tokens);
    for (ir::Value* more : {&batch.partner_labels, &batch.own_share, &batch.loss_scale, &boxes}) {
      if (*more) fn(*more);
    }
  }
};

// `batch` as it came; `augment`: none when augmentation.values() is 0. Partners may be rows of other processes.
TrainRows mix_rows(const Augmentation& augmentation, objectives::Batch batch, ir::Value augment,
                   const ir::Processes& processes = {});

// Erases the boxes of normalised images, f32 [B, H, W, 3]; later boxes lie over earlier ones.
ir::Value erase_boxes(const data::Erasing& erasing, ir::Value images, ir::Value boxes, ir::Value key,
                      const ir::Processes& processes = {});

}  // namespace tessera::train
