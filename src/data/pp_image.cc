#include <chrono>

#include "base/error.h"
#include "data/pp_op.h"
#include "data/pp_scratch.h"

namespace tessera::data {
namespace {

// Adds the time until its end to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

PpImage::PpImage(Bytes file, PpScratch& scratch) : file_(file), scratch_(scratch) {}

DecodeResult PpImage::open() {
  const Stopwatch watch(scratch_.seconds.decode);
  ImageInfo info;
  if (DecodeResult failed = scratch_.state().decoder.probe(file_, info)) return failed;
  width_ = info.width;
  height_ = info.height;
  box_ = {0, 0, width_, height_};
  return std::nullopt;
}

DecodeResult PpImage::load() {
  if (loaded_) return std::nullopt;
  const Stopwatch watch(scratch_.seconds.decode);
  PpScratch::State& s = scratch_.state();
  loaded_ = true;
  return s.decoder.decode_region(file_, box_, s.decoded, source_);
}

// A flip before a resize is not the same to the last bit as one after it, so it is done on the source.
void PpImage::settle_mirror() {
  if (!resize_ || !mirror_source_) return;
  Image& flipped = free_image(source_.width, source_.height);
  copy_image(source_, true, flipped.row(0), flipped.stride());
  source_ = flipped.view();
  mirror_source_ = false;
}

Image& PpImage::free_image(int width, int height) {
  Image& image = scratch_.state().images[static_cast<size_t>(next_scratch_)];
  next_scratch_ ^= 1;
  image.reset(width, height);
  return image;
}

void PpImage::render(uint8_t* out) {
  const ptrdiff_t stride = ptrdiff_t{width_} * Image::kChannels;
  if (resize_) {
    scratch_.state().resizer.resize(source_, resize_->filter, resize_->mirror, width_, height_, out, stride);
  } else {
    copy_image(source_, mirror_source_, out, stride);
  }
}

DecodeResult PpImage::materialise() {
  if (!resize_) return std::nullopt;
  if (DecodeResult failed = load()) return failed;
  const Stopwatch watch(scratch_.seconds.resize);
  settle_mirror();
  Image& image = free_image(width_, height_);
  render(image.row(0));
  source_ = image.view();
  resize_.reset();
  return std::nullopt;
}

DecodeResult PpImage::crop(const Box& box) {
  if (DecodeResult failed = materialise()) return failed;
  TESSERA_CHECK(box.x >= 0 && box.y >= 0 && box.x + box.width <= width_ && box.y + box.height <= height_);
  Box inner = box;
  if (mirror_source_) inner.x = width_ - box.x - box.width;
  if (loaded_) {
    source_ = source_.crop(inner);
  } else {
    box_ = {box_.x + inner.x, box_.y + inner.y, inner.width, inner.height};
  }
  width_ = box.width;
  height_ = box.height;
  return std::nullopt;
}

DecodeResult PpImage::resize(int width, int height, Filter filter) {
  if (DecodeResult failed = materialise()) return failed;
  width_ = width;
  height_ = height;
  resize_ = Resize{filter, false};
  return std::nullopt;
}

void PpImage::mirror() {
  bool& flag = resize_ ? resize_->mirror : mirror_source_;
  flag = !flag;
}

DecodeResult PpImage::write(uint8_t* out) {
  if (DecodeResult failed = load()) return failed;
  const Stopwatch watch(scratch_.seconds.resize);
  settle_mirror();
  render(out);
  return std::nullopt;
}

}  // namespace tessera::data
