#include "train/step/augment.h"

#include "ir/ops.h"
#include "ir/random.h"

namespace tessera::train {
namespace {

using ir::Value;

// Columns [begin, end) of a row's numbers.
Value columns(Value x, int64_t begin, int64_t end) { return ir::slice_axis(x, -1, begin, end); }

// [B] or [B, 1] -> [B, 1, 1, 1], to stand beside images.
Value beside_images(Value x) { return ir::reshape(x, {-1, 1, 1, 1}); }

// Whether pixels lie in their row's box (top, left, bottom, right: f32 [B, 4]); bool [B, H, W, 1].
Value inside(Value box, const Dims& image_dims) {
  const Dims grid = {1, image_dims[1], image_dims[2], 1};
  const Value y = ir::iota({DType::kF32, grid}, 1), x = ir::iota({DType::kF32, grid}, 2);
  const auto side = [&](int64_t i) { return beside_images(columns(box, i, i + 1)); };
  const auto at_least = [](Value a, Value b) { return ir::compare(ir::Compare::kGe, a, b); };
  const auto below = [](Value a, Value b) { return ir::compare(ir::Compare::kLt, a, b); };
  return ir::logical_and(ir::logical_and(at_least(y, side(0)), at_least(x, side(1))),
                         ir::logical_and(below(y, side(2)), below(x, side(3))));
}

// Row i -> row B-1-i, or i-1, of the whole batch.
Value partner_of(Value own, Augmentation::Mix mix, const ir::Processes& processes) {
  const Value x = ir::gather_over_processes(processes, own);
  if (mix == Augmentation::Mix::kTimm) return ir::rows_of_process(processes, ir::reverse(x, {0}));
  const int64_t rows = x.dim(0);
  return ir::rows_of_process(processes,
                             ir::concatenate({ir::slice_axis(x, 0, rows - 1, rows), ir::slice_axis(x, 0, 0, rows - 1)}, 0));
}

Value mix_images(Augmentation::Mix mix, Value images, Value rows, const ir::Processes& processes) {
  const Value own = ir::convert(images, DType::kF32);
  const Value partner = ir::convert(partner_of(images, mix, processes), DType::kF32);
  const Value share = beside_images(columns(rows, 0, 1));
  Value mixed = own * share + partner * (1.0 - share);
  if (mix == Augmentation::Mix::kBigVision) return mixed;
  mixed = ir::round_nearest_even(mixed);
  return ir::convert(ir::select(inside(columns(rows, 2, 6), images.dims()), partner, mixed), DType::kU8);
}

}  // namespace

int64_t Augmentation::values() const {
  return (mix == Mix::kNone ? 0 : image::kMixedRowValues) + (erasing ? erasing->boxes * data::kEraseValues : 0);
}

Augmentation augmentation_of(const data::Pp& pp, const std::optional<image::Mixup>& mixup) {
  Augmentation augmentation;
  if (mixup) augmentation.mix = mixup->of_big_vision() ? Augmentation::Mix::kBigVision : Augmentation::Mix::kTimm;
  augmentation.erasing = pp.erasing();
  return augmentation;
}

TrainRows mix_rows(const Augmentation& augmentation, objectives::Batch batch, Value augment, const ir::Processes& processes) {
  TrainRows rows{std::move(batch), {}};
  if (augmentation.mix != Augmentation::Mix::kNone) {
    rows.batch.images = mix_images(augmentation.mix, rows.batch.images, columns(augment, 0, image::kMixedRowValues), processes);
    rows.batch.partner_labels = partner_of(rows.batch.labels, augmentation.mix, processes);
    rows.batch.own_share = ir::reshape(columns(augment, 1, 2), {-1});
  }
  if (augmentation.erasing) {
    const int64_t end = augmentation.values(), count = augmentation.erasing->boxes * data::kEraseValues;
    rows.boxes = ir::reshape(columns(augment, end - count, end), {-1, augmentation.erasing->boxes, data::kEraseValues});
  }
  return rows;
}

Value erase_boxes(const data::Erasing& erasing, Value images, Value boxes, Value key, const ir::Processes& processes) {
  const Dims dims = images.dims();
  const Value first = ir::first_row(processes, dims[0]);
  for (int64_t i = 0; i < erasing.boxes; ++i) {
    const Value box = ir::reshape(ir::slice_axis(boxes, 1, i, i + 1), {-1, data::kEraseValues});
    const Value fill = erasing.fill == data::Erasing::Fill::kPixel
                           ? ir::random_normal(ir::fold_in(key, static_cast<uint64_t>(i)), dims, first)
                           : ir::reshape(columns(box, 4, 7), {-1, 1, 1, 3});
    images = ir::select(inside(columns(box, 0, 4), dims), fill, images);
  }
  return images;
}

}  // namespace tessera::train
