#pragma once
// Mixup and CutMix: each row of a batch takes a part of a partner row's image and label. What is mixed is drawn here, a few
// numbers a row; the pixels are mixed on the device (train/step/augment.h), so that they travel as they are.
//
// timm's (timm/data/mixup.py): the partner of row i is row B-1-i; lambda ~ Beta(alpha, alpha); mixup rounds to whole pixel
// values before they are normalised; CutMix cuts a box of sides sqrt(1 - lambda) around a uniform centre, clipped to the image
// (or, with minmax, of sides uniform in it), and lambda becomes 1 - box area / image area. `mode`: one draw for a batch, for
// each pair of partners, or for each row.
// big_vision's (utils.get_mixup): the partner of row i is row i-1; one lambda a batch, max(a, 1 - a) of a ~ Beta(p, p); values
// are not rounded.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::image {

struct MixupOptions {
  std::string style = "timm";
  double mixup = 0, cutmix = 0;
  std::vector<double> cutmix_minmax;
  double prob = 1, switch_prob = 0.5;
  std::string mode = "batch";
  int64_t off_epoch = 0;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("style", style, "timm or big_vision");
    field("mixup", mixup, "alpha of the Beta distribution that lambda is drawn from; 0: no mixup");
    field("cutmix", cutmix, "the same for CutMix; timm only");
    field("cutmix_minmax", cutmix_minmax, "[least, most] of the box's sides, as parts of the image's, in place of lambda's");
    field("prob", prob, "probability that anything is mixed");
    field("switch_prob", switch_prob, "probability of CutMix where there are both");
    field("mode", mode, "batch, pair or elem: what shares one draw");
    field("off_epoch", off_epoch, "nothing is mixed from this epoch on; 0: always");
  }
};

// What a row gives and takes.
struct MixedRow {
  float own = 1;                // of every pixel; the rest is the partner's
  float label = 1;              // lambda: of the own label
  float box[4] = {0, 0, 0, 0};  // top, left, bottom, right of what is wholly the partner's
};
inline constexpr int64_t kMixedRowValues = 6;

class Mixup {
 public:
  // Throws a usage Error at `where` for options that make no sense.
  Mixup(MixupOptions options, int height, int width, const std::string& where);

  bool mixes() const { return options_.mixup > 0 || options_.cutmix > 0; }
  bool of_big_vision() const { return options_.style == "big_vision"; }
  const MixupOptions& options() const { return options_; }
  // For row `row` of `rows` in the batch of step `step`.
  MixedRow draw(uint64_t seed, int64_t step, int64_t row, int64_t rows) const;

 private:
  MixupOptions options_;
  int height_, width_;
};

}  // namespace tessera::image
