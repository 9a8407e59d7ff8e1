#include <fmt/format.h>

#include "base/error.h"
#include "data/transform/pp_op.h"
#include "image/codec/exif.h"

namespace tessera::data {
namespace {

constexpr const char* kDecoding = "decoding";

// The columns of `box` seen from the other side of an image `width` wide.
image::Box mirrored(const image::Box& box, int width) { return {width - box.x - box.width, box.y, box.width, box.height}; }

}  // namespace

PpImage::PpImage(ByteSpan file, PpScratch& scratch, PpTrace* trace) : file_(file), scratch_(scratch), trace_(trace) {
  scratch.repairs = {};
}

image::SampleError PpImage::open(const image::DecodePolicy& policy) {
  policy_ = policy;
  const Stopwatch watch(scratch_.seconds.decode, "decode");
  image::ImageInfo info;
  if (image::SampleError failed = scratch_.state().decoder.probe(file_, info)) return failed;
  width_ = info.width;
  height_ = info.height;
  box_ = {0, 0, width_, height_};
  if (trace_) *trace_ = {width_, height_, 1, 0, 0, static_cast<double>(width_), static_cast<double>(height_), false, {}};
  return std::nullopt;
}

void PpImage::trace_window(const image::Box& box) {
  if (!trace_) return;
  trace_->steps.push_back(fmt::format("crop {}x{} at ({}, {})", box.width, box.height, box.x, box.y));
  const image::Box part = trace_->mirrored ? mirrored(box, width_) : box;
  const double across = trace_->width / width_, down = trace_->height / height_;
  trace_->x += part.x * across;
  trace_->y += part.y * down;
  trace_->width = part.width * across;
  trace_->height = part.height * down;
}

image::SampleError PpImage::turn_upright() {
  const int orientation = image::exif_orientation(file_);
  if (orientation == 1) return std::nullopt;
  scratch_.repairs.add(image::Repair::kTurned);
  const image::SampleError failed = edit([&](image::Canvas& canvas) {
    image::turn_upright(canvas.image(), orientation, canvas.next());
    canvas.swap();
  });
  if (trace_) {
    *trace_ = {width_, height_, orientation, 0, 0, static_cast<double>(width_), static_cast<double>(height_), false, {}};
    trace_->steps.push_back("turned upright");
  }
  return failed;
}

void PpImage::start_decoding() {
  if (started_) return;
  if (resize_) {
    if (const auto* filter = std::get_if<image::Filter>(&resize_->method)) {
      narrow_box(image::needed_input(resize_->window, *filter));
      narrowed_ = true;
    }
  }
  const Stopwatch watch(scratch_.seconds.decode, "decode");
  started_ = true;
  scratch_.state().decoder.start_region(file_, box_, scratch_.state().decoded, policy_);
}

void PpImage::decode_on(PpImage& first, PpImage* second) {
  first.scratch_.activity().enter(kDecoding);
  const Stopwatch watch(first.scratch_.seconds.decode, "decode");
  image::Decoder::decode_on(first.scratch_.state().decoder, second ? &second->scratch_.state().decoder : nullptr);
}

image::SampleError PpImage::load() {
  if (loaded_) return std::nullopt;
  const char* op = scratch_.activity().enter(kDecoding);
  start_decoding();
  if (decoding()) decode_on(*this, nullptr);
  const Stopwatch watch(scratch_.seconds.decode, "decode");
  loaded_ = true;
  image::Decoder& decoder = scratch_.state().decoder;
  const image::SampleError failed = decoder.finish_region(source_);
  scratch_.repairs |= decoder.repairs();
  scratch_.activity().enter(op);
  return failed;
}

// A flip before a resize is not the same to the last bit as one after it, so it is done on the source.
void PpImage::settle_mirror() {
  if (!mirror_source_) return;
  image::Image& flipped = free_image(source_.width, source_.height);
  image::copy_image(source_, true, flipped.row(0), flipped.stride());
  source_ = flipped.view();
  mirror_source_ = false;
}

image::Image& PpImage::free_image(int width, int height) {
  image::Image& image = scratch_.state().images[static_cast<size_t>(next_scratch_)];
  next_scratch_ ^= 1;
  image.reset(width, height);
  return image;
}

void PpImage::narrow_box(const image::Box& box) {
  const image::Box part = mirror_source_ ? mirrored(box, box_.width) : box;
  box_ = {box_.x + part.x, box_.y + part.y, part.width, part.height};
}

// Makes source_ the part `box` of what it would be, which a pending mirror turns; not before decoding has started.
image::SampleError PpImage::narrow_source(const image::Box& box) {
  if (image::SampleError failed = load()) return failed;
  source_ = source_.crop(mirror_source_ ? mirrored(box, source_.width) : box);
  return std::nullopt;
}

image::SampleError PpImage::prepare() {
  start_decoding();
  const auto* filter = resize_ && !narrowed_ ? std::get_if<image::Filter>(&resize_->method) : nullptr;
  if (image::SampleError failed = filter ? narrow_source(image::needed_input(resize_->window, *filter)) : load()) return failed;
  if (!resize_) return std::nullopt;
  const Stopwatch watch(scratch_.seconds.resize, "resize");
  settle_mirror();
  return std::nullopt;
}

void PpImage::paint(uint8_t* out) {
  const Stopwatch watch(scratch_.seconds.resize, "resize");
  const ptrdiff_t stride = ptrdiff_t{width_} * image::Image::kChannels;
  PpScratch::State& s = scratch_.state();
  if (!resize_) return image::copy_image(source_, mirror_source_, out, stride);
  const image::ResizeWindow& window = resize_->window;
  if (const auto* filter = std::get_if<image::Filter>(&resize_->method)) {
    const image::Box input = image::needed_input(window, *filter);
    return s.resizer.resize_window(source_, input, window, *filter, resize_->mirror, out, stride);
  }
  s.tensorflow_resizer.resize(source_, std::get<image::TensorflowMethod>(resize_->method), resize_->mirror, width_, height_,
                              out);
}

image::SampleError PpImage::materialise() {
  if (!resize_) return std::nullopt;
  if (image::SampleError failed = prepare()) return failed;
  image::Image& image = free_image(width_, height_);
  paint(image.row(0));
  source_ = image.view();
  resize_.reset();
  narrowed_ = false;
  return std::nullopt;
}

image::SampleError PpImage::crop(const image::Box& box) {
  TESSERA_CHECK(box.x >= 0 && box.y >= 0 && box.x + box.width <= width_ && box.y + box.height <= height_);
  trace_window(box);
  if (resize_ && !narrowed_ && std::holds_alternative<image::Filter>(resize_->method)) {
    image::Box& part = resize_->window.box;
    const image::Box inner = resize_->mirror ? mirrored(box, width_) : box;
    part = {part.x + inner.x, part.y + inner.y, inner.width, inner.height};
  } else {
    if (image::SampleError failed = materialise()) return failed;
    if (!started_) {
      narrow_box(box);
    } else if (image::SampleError failed = narrow_source(box)) {
      return failed;
    }
  }
  width_ = box.width;
  height_ = box.height;
  return std::nullopt;
}

image::SampleError PpImage::window(const image::Box& box, const image::Padding& padding) {
  if (box.x >= 0 && box.y >= 0 && box.x + box.width <= width_ && box.y + box.height <= height_) return crop(box);
  trace_window(box);
  return edit([&](image::Canvas& canvas) { image::cut_window(canvas, box, padding); });
}

image::SampleError PpImage::resize(int width, int height, const image::ResizeMethod& method) {
  if (image::SampleError failed = scratch_.state().decoder.check_made(width, height)) return failed;
  if (trace_) {
    const auto* filter = std::get_if<image::Filter>(&method);
    const char* name =
        filter ? image::filter_name(*filter) : image::tensorflow_filter_name(std::get<image::TensorflowMethod>(method).filter);
    trace_->steps.push_back(fmt::format("resize to {}x{}, {}", width, height, name));
  }
  if (image::SampleError failed = materialise()) return failed;
  resize_ = Resize{method, false, {width_, height_, width, height, {0, 0, width, height}}};
  width_ = width;
  height_ = height;
  return std::nullopt;
}

void PpImage::mirror() {
  if (trace_) {
    trace_->steps.emplace_back("flip_lr");
    trace_->mirrored = !trace_->mirrored;
  }
  bool& flag = resize_ ? resize_->mirror : mirror_source_;
  flag = !flag;
}

image::SampleError PpImage::begin_edit() {
  image::Canvas& canvas = scratch_.state().canvas;
  const bool here = loaded_ && !resize_ && !mirror_source_ && source_.pixels == canvas.image().view().pixels &&
                    source_.width == canvas.image().width() && source_.height == canvas.image().height();
  if (here) return std::nullopt;
  if (image::SampleError failed = prepare()) return failed;
  paint(canvas.next(width_, height_).row(0));
  canvas.swap();
  return std::nullopt;
}

void PpImage::end_edit() {
  source_ = scratch_.state().canvas.image().view();
  width_ = source_.width;
  height_ = source_.height;
  started_ = loaded_ = true;
  mirror_source_ = false;
  resize_.reset();
  narrowed_ = false;
}

image::SampleError PpImage::write(uint8_t* out) {
  if (image::SampleError failed = prepare()) return failed;
  paint(out);
  return std::nullopt;
}

}  // namespace tessera::data
