// flip_lr: mirrored left to right with probability p.
#include "data/pp_op.h"

namespace tessera::data {
namespace {

class FlipLr final : public PpOp {
 public:
  explicit FlipLr(double p) : p_(p) {}
  bool random() const override { return true; }
  void infer(PpShape&, const CallReader&) const override {}
  DecodeResult apply(PpImage& image, Rng& rng) const override {
    if (rng.uniform() < p_) image.mirror();
    return std::nullopt;
  }

 private:
  double p_;
};

}  // namespace

std::unique_ptr<PpOp> make_flip_lr(CallReader& call) {
  const double p = call.number("p", 0.5);
  if (p < 0 || p > 1) call.fail("`p` is a probability, from 0 to 1");
  return std::make_unique<FlipLr>(p);
}

}  // namespace tessera::data
