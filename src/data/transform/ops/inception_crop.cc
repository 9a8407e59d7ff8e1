// inception_crop: big_vision's random part of the image, resized to a square; with the decoding, or after it.
#include "base/error.h"
#include "data/transform/pp_op.h"
#include "image/augment/crop_boxes.h"

namespace tessera::data {
namespace {

class InceptionCrop final : public PpOp {
 public:
  InceptionCrop(Kind kind, int size, image::CropRange area, image::CropRange aspect, image::ResizeMethod method)
      : kind_(kind), size_(size), area_(area), aspect_(aspect), method_(method) {}
  Kind kind() const override { return kind_; }
  bool random() const override { return true; }
  void infer(PpShape& shape, const CallReader&) const override {
    shape.width = shape.height = size_;
    shape.short_side = size_;
  }
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    if (kind_ == Kind::kDecode) {
      if (image::SampleError failed = image.open()) return failed;
    }
    const image::Box box = image::draw_inception_crop(image.width(), image.height(), area_, aspect_, rng);
    if (image::SampleError failed = image.crop(box)) return failed;
    return image.resize(size_, size_, method_);
  }

 private:
  Kind kind_;  // kDecode: reads the file's header first
  int size_;
  image::CropRange area_, aspect_;  // parts of the whole; width / height
  image::ResizeMethod method_;
};

std::unique_ptr<PpOp> make(CallReader& call, PpOp::Kind kind) {
  const int size = read_side(call, "size");
  const double low = call.number("area_min", 5), high = call.number("area_max", 100);
  if (!(low > 0 && low <= high && high <= 100)) call.fail("areas are percentages: 0 < area_min <= area_max <= 100");
  image::CropRange ratio{0.75, 1.33};
  if (kind == PpOp::Kind::kDecode) ratio = {call.number("ratio_min", ratio.low), call.number("ratio_max", ratio.high)};
  if (!(ratio.low > 0 && ratio.low <= ratio.high)) call.fail("ratios are width / height: 0 < ratio_min <= ratio_max");
  const image::ResizeMethod method = read_method(call, image::TensorflowFilter::kBilinear);
  return std::make_unique<InceptionCrop>(kind, size, image::CropRange{low / 100, high / 100}, ratio, method);
}

std::unique_ptr<PpOp> make_inception_crop(CallReader& call) { return make(call, PpOp::Kind::kPixels); }

std::unique_ptr<PpOp> make_decode_and_inception_crop(CallReader& call) { return make(call, PpOp::Kind::kDecode); }

}  // namespace

const PpOpKind kInceptionCrop{"inception_crop", "inception_crop(size[, area_min=5][, area_max=100]METHOD)",
                              "TensorFlow's and big_vision's random crop; areas in percent", make_inception_crop};
const PpOpKind kDecodeJpegAndInceptionCrop{
    "decode_jpeg_and_inception_crop",
    "decode_jpeg_and_inception_crop(size[, area_min=5][, area_max=100][, ratio_min=0.75][, ratio_max=1.33]METHOD)",
    "decode and inception_crop in one word", make_decode_and_inception_crop};

}  // namespace tessera::data
