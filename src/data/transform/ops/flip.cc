// flip_lr and flip_ud: mirrored left to right, or upside down, with probability p.
#include <algorithm>

#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

class Flip : public PpOp {
 public:
  explicit Flip(double p) : p_(p) {}
  bool random() const override { return true; }
  void infer(PpShape&, const CallReader&) const override {}

 protected:
  bool flips(Rng& rng) const { return rng.uniform() < p_; }

 private:
  double p_;
};

class FlipLr final : public Flip {
 public:
  using Flip::Flip;
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    if (flips(rng)) image.mirror();
    return std::nullopt;
  }
};

class FlipUd final : public Flip {
 public:
  using Flip::Flip;
  bool edits() const override { return true; }
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    if (!flips(rng)) return std::nullopt;
    const auto turn = [](image::Canvas& canvas) {
      image::Image& pixels = canvas.image();
      for (int top = 0, bottom = pixels.height() - 1; top < bottom; ++top, --bottom) {
        std::swap_ranges(pixels.row(top), pixels.row(top) + pixels.stride(), pixels.row(bottom));
      }
    };
    return image.edit([] { return std::string("flip_ud"); }, turn);
  }
};

std::unique_ptr<PpOp> make_flip_lr(CallReader& call) { return std::make_unique<FlipLr>(read_probability(call, "p", 0.5)); }

std::unique_ptr<PpOp> make_flip_ud(CallReader& call) { return std::make_unique<FlipUd>(read_probability(call, "p", 0.5)); }

}  // namespace

const PpOpKind kFlipLr{"flip_lr", "flip_lr[(p=0.5)]", "mirrored left to right", make_flip_lr};
const PpOpKind kFlipUd{"flip_ud", "flip_ud[(p=0.5)]", "upside down", make_flip_ud};

}  // namespace tessera::data
