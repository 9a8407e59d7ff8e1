#pragma once
// What a preprocessing op is made of: a check when the chain is parsed, and its work on one image. To add one, write a file in
// src/data/transform/ops/ and a line in pp.def.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "base/rng.h"
#include "base/text/call.h"
#include "data/transform/pp.h"
#include "data/transform/pp_scratch.h"
#include "data/transform/pp_texts.h"
#include "image/ops/window.h"
#include "image/resize/resize.h"
#include "image/resize/resize_method.h"

namespace tessera::data {

// The image of one sample on its way through a chain. Nothing is decoded or resized until the pixels are needed, so that a crop
// can be decoded alone, a flip can be part of the resize before it, and of a resize only what a crop after it leaves is done.
class PpImage {
 public:
  // `trace`, where there is one, records what is done.
  PpImage(ByteSpan file, PpScratch& scratch, PpTrace* trace = nullptr);
  // Reads the header; width() and height() hold from then on.
  [[nodiscard]] image::SampleError open(const image::DecodePolicy& policy = {});
  // Turns the picture upright, where its EXIF orientation says that it isn't.
  [[nodiscard]] image::SampleError turn_upright();
  int width() const { return width_; }
  int height() const { return height_; }
  [[nodiscard]] image::SampleError crop(const image::Box& box);
  // A crop that may reach past the image.
  [[nodiscard]] image::SampleError window(const image::Box& box, const image::Padding& padding);
  [[nodiscard]] image::SampleError resize(int width, int height, const image::ResizeMethod& method);
  void mirror();
  // Gives the pixels as the ops so far left them to change(canvas), which leaves a picture of any size. what() says for people
  // what that is.
  template <class What, class Change>
  [[nodiscard]] image::SampleError edit(const What& what, const Change& change) {
    if (trace_) trace_->steps.push_back(what());
    return edit(change);
  }
  // For people who wait: the chain has come to this op.
  void enter(const char* op) { scratch_.activity().enter(op); }
  // Memory for what an op draws.
  image::AugmentPlan& plan() { return scratch_.state().plan; }
  // Starts to decode what the ops so far leave of the file, which is then decided. Decoding may go on together with another
  // image's, or ends when the pixels are needed.
  void start_decoding();
  bool decoding() const { return started_ && !loaded_ && scratch_.state().decoder.decoding(); }
  static void decode_on(PpImage& first, PpImage* second);
  // Writes height() * width() * 3 bytes.
  [[nodiscard]] image::SampleError write(uint8_t* out);

 private:
  template <class Change>
  [[nodiscard]] image::SampleError edit(const Change& change) {
    if (image::SampleError failed = begin_edit()) return failed;
    const Stopwatch watch(scratch_.seconds.augment, "augment");
    change(scratch_.state().canvas);
    end_edit();
    return std::nullopt;
  }
  void trace_window(const image::Box& box);
  [[nodiscard]] image::SampleError load();         // afterwards source_ is the pixels of box_
  [[nodiscard]] image::SampleError materialise();  // afterwards no resize is pending
  [[nodiscard]] image::SampleError prepare();      // afterwards source_ is what paint() starts from
  void paint(uint8_t* out);                        // height() * width() * 3 bytes
  void narrow_box(const image::Box& box);          // before decoding has started
  [[nodiscard]] image::SampleError narrow_source(const image::Box& box);
  void settle_mirror();
  [[nodiscard]] image::SampleError begin_edit();  // afterwards the canvas holds the picture
  void end_edit();
  image::Image& free_image(int width, int height);

  ByteSpan file_;
  image::DecodePolicy policy_;
  PpScratch& scratch_;
  PpTrace* trace_;
  int width_ = 0, height_ = 0;  // of what the ops so far amount to
  bool started_ = false, loaded_ = false;
  image::Box box_;           // of the file, while not loaded; fixed once decoding has started
  bool narrowed_ = false;    // box_ is what resize_ needs of it
  image::ImageView source_;  // once loaded
  int next_scratch_ = 0;     // which scratch image is free
  bool mirror_source_ = false;
  struct Resize {
    image::ResizeMethod method;
    bool mirror;                 // afterwards
    image::ResizeWindow window;  // its box is width_ x height_, and as it is before the mirror
  };
  std::optional<Resize> resize_;
};

// What is known about an image at a place in a chain before any file is read.
struct PpShape {
  std::optional<int> width, height;  // when every image has the same
  std::optional<int> short_side;     // when every image's shorter side has the same
  int views = 1;                     // of each image
  PixelScale affine;
  bool scales_values = false;
  std::optional<Erasing> erasing;
  PpTextNames texts;
};

class PpOp {
 public:
  // kDevice: after normalisation, on the device. kText: not on the image (PpTextOp).
  enum class Kind { kDecode, kPixels, kValues, kDevice, kText };
  virtual ~PpOp() = default;
  virtual Kind kind() const { return Kind::kPixels; }
  virtual bool random() const { return false; }
  // Whether it changes pixels one by one, so that those must be there first: not so crops, resizes and flips.
  virtual bool edits() const { return false; }
  // From the shape before the op to the one after it; call.fail(…) when the op cannot stand there.
  virtual void infer(PpShape& shape, const CallReader& call) const = 0;
  [[nodiscard]] virtual image::SampleError apply(PpImage& image, Rng& rng) const = 0;
  // The numbers that the device needs for a sample of this size, for ops of kind kDevice.
  virtual void draw(int, int, Rng&, float*) const {}
};

// An op on the sample's texts.
class PpTextOp : public PpOp {
 public:
  Kind kind() const final { return Kind::kText; }
  image::SampleError apply(PpImage&, Rng&) const final { return std::nullopt; }
  // The seed of `key` is the op's own: Rng(key.seed, key.epoch, key.sample) is its stream for the sample.
  [[nodiscard]] virtual image::SampleError change(PpTexts& texts, const SampleKey& key) const = 0;
};

struct PpOpKind {
  const char *name, *usage, *help;  // usage: how to write it, where METHOD stands for kPpMethod (pp.h)
  std::unique_ptr<PpOp> (*make)(CallReader& call);
};
#define PP_OP(object) extern const PpOpKind object;
#include "data/transform/pp.def"
#undef PP_OP

// Arguments several ops share. Each fails with a message when the value is out of range.
struct PpSize {
  int width = 0, height = 0;
};
int to_side(const CallReader& call, std::string_view name, std::string_view text);  // pixels
int read_side(CallReader& call, std::string_view name);
int read_side_or(CallReader& call, std::string_view name, int fallback);
PpSize read_size(CallReader& call);  // "size[, h]": size is the width, and the height too when h is absent
void set_size(PpShape& shape, PpSize size);
std::optional<image::Filter> read_filter_or_random(CallReader& call, std::string_view fallback);  // nothing for "random"
image::Filter choose_filter(const std::optional<image::Filter>& filter, Rng& rng);  // bilinear or bicubic for nothing
image::ResizeMethod read_method(CallReader& call, image::TensorflowFilter tensorflow_fallback, bool antialias_fallback = false);
bool read_tensorflow(CallReader& call);                                                      // library=tensorflow
image::Rgb read_rgb(CallReader& call, std::string_view name, std::vector<double> fallback);  // levels 0..255
image::Padding read_padding(CallReader& call);  // padding=constant|reflect, fill=…
double read_probability(CallReader& call, std::string_view name, std::optional<double> fallback = {});

// Half to even, as Python and TensorFlow round.
// What is past an int is the largest one: a side that is over every limit.
inline int round_half_even(double x) {
  constexpr double kMax = std::numeric_limits<int>::max();
  return static_cast<int>(std::nearbyint(std::clamp(x, -kMax, kMax)));
}

}  // namespace tessera::data
