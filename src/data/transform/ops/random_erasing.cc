// random_erasing: timm's RandomErasing. With probability p, from 1 to `count` boxes (or count = [least, most]): area
// uniform in `area` of the image, divided by their number; aspect log-uniform in [aspect, 1 / aspect]; sides rounded half to
// even; up to ten tries for one that is smaller than the image both ways.
#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

constexpr int kTries = 10;
constexpr int64_t kMaxBoxes = 16;

class RandomErasing final : public PpOp {
 public:
  struct Options {
    double p;
    Erasing::Fill fill;
    int64_t fewest, most;
    double min_area, max_area, aspect;
  };
  explicit RandomErasing(const Options& options) : o_(options) {}
  Kind kind() const override { return Kind::kDevice; }
  bool random() const override { return true; }
  void infer(PpShape& shape, const CallReader&) const override { shape.erasing = Erasing{o_.fill, o_.most}; }
  image::SampleError apply(PpImage&, Rng&) const override { return std::nullopt; }

  void draw(int height, int width, Rng& rng, float* out) const override {
    std::fill_n(out, o_.most * kEraseValues, 0.0f);
    if (rng.uniform() >= o_.p) return;
    const int64_t count = o_.fewest + static_cast<int64_t>(rng.below(static_cast<uint64_t>(o_.most - o_.fewest) + 1));
    for (int64_t i = 0; i < count; ++i) draw_box(height, width, count, rng, out + i * kEraseValues);
  }

 private:
  void draw_box(int height, int width, int64_t count, Rng& rng, float* out) const {
    const double area = static_cast<double>(height) * width;
    for (int i = 0; i < kTries; ++i) {
      const double target = rng.uniform(o_.min_area, o_.max_area) * area / static_cast<double>(count);
      const double aspect = std::exp(rng.uniform(std::log(o_.aspect), -std::log(o_.aspect)));
      const int h = round_half_even(std::sqrt(target * aspect)), w = round_half_even(std::sqrt(target / aspect));
      if (h >= height || w >= width) continue;
      const auto top = static_cast<int>(rng.below(static_cast<uint64_t>(height - h) + 1));
      const auto left = static_cast<int>(rng.below(static_cast<uint64_t>(width - w) + 1));
      const int sides[] = {top, left, top + h, left + w};
      std::copy(std::begin(sides), std::end(sides), out);
      if (o_.fill == Erasing::Fill::kRand) std::generate_n(out + 4, 3, [&] { return static_cast<float>(rng.normal()); });
      return;
    }
  }

  Options o_;
};

std::unique_ptr<PpOp> make_random_erasing(CallReader& call) {
  RandomErasing::Options o{};
  o.p = call.number("p", 0.25);
  if (o.p < 0 || o.p > 1) call.fail("`p` is a probability, from 0 to 1");
  const std::string mode = call.text("mode", "const");
  if (mode != "const" && mode != "rand" && mode != "pixel") {
    call.fail(fmt::format("unknown mode `{}`", mode), suggest_name(mode, {"const", "rand", "pixel"}));
  }
  o.fill = mode == "const" ? Erasing::Fill::kConst : mode == "rand" ? Erasing::Fill::kRand : Erasing::Fill::kPixel;
  const std::vector<double> count = call.numbers("count", {{1}});
  const auto whole = [](double n) { return n == std::floor(n) && n >= 1 && n <= kMaxBoxes; };
  if (count.empty() || count.size() > 2 || !std::all_of(count.begin(), count.end(), whole) || count.front() > count.back()) {
    call.fail(fmt::format("`count` is the most boxes, from 1 to {}, or [least, most]", kMaxBoxes));
  }
  o.fewest = count.size() == 1 ? 1 : static_cast<int64_t>(count.front());
  o.most = static_cast<int64_t>(count.back());
  const std::vector<double> area = call.numbers("area", {{0.02, 1.0 / 3}});
  if (area.size() != 2 || !(area[0] > 0 && area[0] <= area[1] && area[1] <= 1)) {
    call.fail("`area` must be [least, most] with 0 < least <= most <= 1");
  }
  o.min_area = area[0];
  o.max_area = area[1];
  o.aspect = call.number("aspect", 0.3);
  if (!(o.aspect > 0 && o.aspect <= 1)) call.fail("`aspect` is the least ratio of the sides, above 0 and at most 1");
  return std::make_unique<RandomErasing>(o);
}

}  // namespace

const PpOpKind kRandomErasing{"random_erasing",
                              "random_erasing[(p=0.25[, mode=const][, count=1][, area=[0.02, 1/3]][, aspect=0.3])]",
                              "timm's, on the device; mode is const, rand or pixel", make_random_erasing};

}  // namespace tessera::data
