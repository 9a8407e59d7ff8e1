// split: several views of each image, timm's AugMixDataset.
#include <fmt/format.h>

#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

class SplitViews final : public PpOp {
 public:
  explicit SplitViews(int views) : views_(views) {}
  bool random() const override { return true; }
  void infer(PpShape& shape, const CallReader& call) const override {
    if (shape.views > 1) call.fail("the chain is split before");
    if (!shape.width || !shape.height) {
      call.fail("the views must have one size, and images here have none yet", "crop or resize before it");
    }
    shape.views = views_;
  }
  image::SampleError apply(PpImage&, Rng&) const override { return std::nullopt; }

 private:
  int views_;
};

std::unique_ptr<PpOp> make_split(CallReader& call) {
  constexpr int64_t kMaxViews = 16;
  const int64_t views = call.integer("views");
  if (views < 2 || views > kMaxViews) call.fail(fmt::format("`views` must be 2 to {}, not {}", kMaxViews, views));
  return std::make_unique<SplitViews>(static_cast<int>(views));
}

}  // namespace

const PpOpKind kSplit{"split", "split(views)",
                      "so many rows of a batch for each image: the first as it is here, the others as what follows changes "
                      "them, each by draws of "
                      "its own; timm's aug_splits",
                      make_split};

}  // namespace tessera::data
