#include "image/augment/mixup.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "base/text/text.h"

namespace tessera::image {
namespace {

struct Box {
  int64_t top, left, bottom, right;
};

int64_t in_range(Rng& rng, int64_t begin, int64_t end) {
  return begin + static_cast<int64_t>(rng.below(static_cast<uint64_t>(std::max<int64_t>(1, end - begin))));
}

Box box_of_share(Rng& rng, int height, int width, double share) {
  const double side = std::sqrt(share);
  const auto h = static_cast<int64_t>(height * side), w = static_cast<int64_t>(width * side);
  const int64_t y = in_range(rng, 0, height), x = in_range(rng, 0, width);
  const auto clip = [](int64_t v, int limit) { return std::clamp<int64_t>(v, 0, limit); };
  return {clip(y - h / 2, height), clip(x - w / 2, width), clip(y + (h + 1) / 2, height), clip(x + (w + 1) / 2, width)};
}

Box box_of_sides(Rng& rng, int height, int width, const std::vector<double>& minmax) {
  const auto side = [&](int of) {
    return in_range(rng, static_cast<int64_t>(of * minmax[0]), static_cast<int64_t>(of * minmax[1]));
  };
  const int64_t h = side(height), w = side(width);
  const int64_t top = in_range(rng, 0, height - h + 1), left = in_range(rng, 0, width - w + 1);
  return {top, left, top + h, left + w};
}

}  // namespace

Mixup::Mixup(MixupOptions options, int height, int width, const std::string& where)
    : options_(std::move(options)), height_(height), width_(width) {
  const auto fail = [&](const std::string& message, const std::string& help = {}) { throw usage_error(message, where, help); };
  MixupOptions& o = options_;
  if (o.style != "timm" && o.style != "big_vision") {
    fail(fmt::format("`style` is \"{}\"", o.style), suggest_name(o.style, {"timm", "big_vision"}));
  }
  if (o.mode != "batch" && o.mode != "pair" && o.mode != "elem") {
    fail(fmt::format("`mode` is \"{}\"", o.mode), suggest_name(o.mode, {"batch", "pair", "elem"}));
  }
  if (o.mixup < 0 || o.cutmix < 0) fail("`mixup` and `cutmix` are 0 or more");
  const auto is_probability = [](double p) { return p >= 0 && p <= 1; };
  if (!is_probability(o.prob) || !is_probability(o.switch_prob)) fail("`prob` and `switch_prob` are from 0 to 1");
  if (!o.cutmix_minmax.empty()) {
    const auto& m = o.cutmix_minmax;
    if (m.size() != 2 || !(m[0] >= 0 && m[0] < m[1] && m[1] <= 1)) {
      fail("`cutmix_minmax` must be [least, most] with 0 <= least < most <= 1");
    }
    o.cutmix = 1;  // as timm: the box does not depend on lambda then
  }
  if (of_big_vision() && (o.cutmix > 0 || o.mode != "batch")) {
    fail("big_vision's mixup has neither CutMix nor modes", "style = \"timm\" has both");
  }
}

MixedRow Mixup::draw(uint64_t seed, int64_t step, int64_t row, int64_t rows) const {
  const MixupOptions& o = options_;
  // Rows that share a draw share its name.
  const int64_t name = o.mode == "batch" ? 0 : o.mode == "pair" ? std::min(row, rows - 1 - row) : row;
  Rng rng(seed ^ hash_name("mixup"), static_cast<uint64_t>(step), static_cast<uint64_t>(name));
  MixedRow out;
  if (!mixes() || rng.uniform() >= o.prob) return out;
  const bool cut = o.cutmix > 0 && (o.mixup == 0 || rng.uniform() < o.switch_prob);
  const double alpha = cut ? o.cutmix : o.mixup;
  double lambda = rng.beta(alpha, alpha);
  if (of_big_vision()) lambda = std::max(lambda, 1 - lambda);
  if (!cut) {
    out.own = out.label = static_cast<float>(lambda);
    return out;
  }
  const Box box = o.cutmix_minmax.empty() ? box_of_share(rng, height_, width_, 1 - lambda)
                                          : box_of_sides(rng, height_, width_, o.cutmix_minmax);
  const int64_t sides[] = {box.top, box.left, box.bottom, box.right};
  std::copy(std::begin(sides), std::end(sides), out.box);
  const auto area = static_cast<double>((box.bottom - box.top) * (box.right - box.left));
  out.label = static_cast<float>(1 - area / (static_cast<double>(height_) * width_));
  return out;
}

}  // namespace tessera::image
