// central_crop_or_pad, random_crop_or_pad (timm's CenterCropOrPad and RandomCropOrPad), pad_to_shape (big_vision's) and
// trim_border (timm's TrimBorder).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"
#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

// A rectangle of fixed size that may reach past the image.
class CropOrPad : public PpOp {
 public:
  CropOrPad(PpSize size, image::Padding padding) : size_(size), padding_(padding) {}
  bool edits() const override { return true; }
  void infer(PpShape& shape, const CallReader&) const override { set_size(shape, size_); }
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    const image::Box box{place(image.width(), size_.width, rng), place(image.height(), size_.height, rng), size_.width,
                         size_.height};
    return image.window(box, padding_);
  }

 protected:
  // Where a window of `wanted` pixels starts along an axis of `side`.
  virtual int place(int side, int wanted, Rng& rng) const = 0;

 private:
  PpSize size_;
  image::Padding padding_;
};

class CentralCropOrPad final : public CropOrPad {
 public:
  using CropOrPad::CropOrPad;

 protected:
  int place(int side, int wanted, Rng&) const override {
    return wanted > side ? -((wanted - side) / 2) : round_half_even((side - wanted) / 2.0);
  }
};

class RandomCropOrPad final : public CropOrPad {
 public:
  using CropOrPad::CropOrPad;
  bool random() const override { return true; }

 protected:
  int place(int side, int wanted, Rng& rng) const override {
    const int spare = side - wanted;
    const int offset = static_cast<int>(rng.below(static_cast<uint64_t>(std::abs(spare)) + 1));
    return spare < 0 ? -offset : offset;
  }
};

class PadToShape final : public PpOp {
 public:
  enum class Where { kBefore, kAfter, kBoth };
  PadToShape(PpSize size, image::Rgb fill, Where where) : size_(size), fill_(fill), where_(where) {}
  bool edits() const override { return true; }
  void infer(PpShape& shape, const CallReader& call) const override {
    if ((shape.width && *shape.width > size_.width) || (shape.height && *shape.height > size_.height)) {
      call.fail(fmt::format("the images that reach it, {}x{}, are larger", *shape.width, *shape.height),
                "resize or crop first");
    }
    set_size(shape, size_);
  }
  image::SampleError apply(PpImage& image, Rng&) const override {
    const int across = size_.width - image.width(), down = size_.height - image.height();
    if (across < 0 || down < 0) {
      return image::DecodeFailure{fmt::format("{}x{} pixels, larger than the {}x{} to pad to", image.width(), image.height(),
                                              size_.width, size_.height)};
    }
    if (across == 0 && down == 0) return std::nullopt;
    return image.window({-before(across), -before(down), size_.width, size_.height}, {false, fill_});
  }

 private:
  int before(int spare) const { return where_ == Where::kBefore ? spare : where_ == Where::kBoth ? spare / 2 : 0; }

  PpSize size_;
  image::Rgb fill_;
  Where where_;
};

class TrimBorder final : public PpOp {
 public:
  explicit TrimBorder(int pixels) : pixels_(pixels) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    for (std::optional<int>* side : {&shape.width, &shape.height, &shape.short_side}) {
      if (!*side) continue;
      **side -= 2 * pixels_;
      if (**side < 1) call.fail("nothing is left of the images that reach it");
    }
  }
  image::SampleError apply(PpImage& image, Rng&) const override {
    const int width = image.width() - 2 * pixels_, height = image.height() - 2 * pixels_;
    if (width < 1 || height < 1) {
      return image::DecodeFailure{
          fmt::format("{}x{} pixels, and a border of {} leaves nothing of them", image.width(), image.height(), pixels_)};
    }
    return image.crop({pixels_, pixels_, width, height});
  }

 private:
  int pixels_;
};

template <class Op>
std::unique_ptr<PpOp> make_crop_or_pad(CallReader& call) {
  const PpSize size = read_size(call);
  return std::make_unique<Op>(size, read_padding(call));
}

std::unique_ptr<PpOp> make_central_crop_or_pad(CallReader& call) { return make_crop_or_pad<CentralCropOrPad>(call); }

std::unique_ptr<PpOp> make_random_crop_or_pad(CallReader& call) { return make_crop_or_pad<RandomCropOrPad>(call); }

std::unique_ptr<PpOp> make_pad_to_shape(CallReader& call) {
  const PpSize size = read_size(call);
  const image::Rgb fill = read_rgb(call, "fill", {0});
  const std::string where = call.text("where", "after");
  using Where = PadToShape::Where;
  if (where == "before") return std::make_unique<PadToShape>(size, fill, Where::kBefore);
  if (where == "after") return std::make_unique<PadToShape>(size, fill, Where::kAfter);
  if (where == "both") return std::make_unique<PadToShape>(size, fill, Where::kBoth);
  call.fail(fmt::format("unknown place `{}`", where), suggest_name(where, {"before", "after", "both"}));
}

std::unique_ptr<PpOp> make_trim_border(CallReader& call) { return std::make_unique<TrimBorder>(read_side(call, "pixels")); }

}  // namespace

const PpOpKind kCentralCropOrPad{"central_crop_or_pad", "central_crop_or_pad(size[, h][, padding=constant][, fill=0])",
                                 "timm's; padding=reflect mirrors the image at its edges", make_central_crop_or_pad};
const PpOpKind kRandomCropOrPad{"random_crop_or_pad", "random_crop_or_pad(size[, h][, padding=constant][, fill=0])",
                                "timm's: at random places of a larger image, or a smaller one at a random place",
                                make_random_crop_or_pad};
const PpOpKind kPadToShape{"pad_to_shape", "pad_to_shape(size[, h][, fill=0][, where=after])", "where is before, after or both",
                           make_pad_to_shape};
const PpOpKind kTrimBorder{"trim_border", "trim_border(pixels)", "cut off on every side", make_trim_border};

}  // namespace tessera::data
