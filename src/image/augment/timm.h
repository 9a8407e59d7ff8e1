#pragma once
// timm's automatic augmentation in timm's own words, those of its --aa flag (timm/data/auto_augment.py, timm 1.0):
//   rand-m9-mstd0.5-inc1   RandAugment. m: level; n: operations a picture (2); p: probability of each (0.5); mstd: standard
//                          deviation of the level, uniform in 0..m when above 100 (0); mmax: largest level (10); inc1: levels
//                          that increase the effect; t: the set of operations: tweights, t3a, t3aw.
//   original, originalr, v0, v0r, 3a [-mstd0.5]   AutoAugment policies
//   augmix-m5-w4-d2        AugMix. m: level (3); w: chains (3); d: operations in each, -1 for 1..3 (-1); a: alpha (1);
//                          b1: blend one by one; mstd: as above (uniform in 0..m)

#include <limits>

#include "base/text/call.h"
#include "image/augment/plan.h"
#include "image/augment/timm_tables.h"

namespace tessera::image {

// timm's AugmentOp: applied with probability `prob`; its level is drawn from N(level, std), or uniformly in 0..level when std
// is infinite, and clamped to 0..most.
struct TimmOp {
  const TimmOpRule* rule;
  double prob, level;
};
struct TimmLevels {
  double std = 0, most = 10;
};

class TimmAugment {
 public:
  // `filter`: nothing draws bilinear or bicubic for each operation. Fails through `call` when the word is not timm's.
  TimmAugment(std::string_view word, std::optional<Filter> filter, const CallReader& call);

  // What to do with a picture of this size; `plan` is written over.
  void draw(int width, int height, Rng& rng, AugmentPlan& plan) const;

 private:
  void parse_rand(const std::vector<std::string>& parts, const CallReader& call);
  void parse_auto(const std::vector<std::string>& parts, const CallReader& call);
  void parse_augmix(const std::vector<std::string>& parts, const CallReader& call);
  void draw_rand(const TimmScale& scale, Rng& rng, AugmentPlan& plan) const;
  void draw_auto(const TimmScale& scale, Rng& rng, AugmentPlan& plan) const;
  void draw_augmix(const TimmScale& scale, Rng& rng, AugmentPlan& plan) const;
  void add(const TimmOp& op, const TimmScale& scale, Rng& rng, AugmentSteps& steps) const;

  enum class Kind { kRand, kAuto, kAugMix } kind_ = Kind::kRand;
  std::optional<Filter> filter_;
  TimmLevels levels_;
  double translate_ = 0.45;

  std::vector<TimmOp> ops_;      // rand and augmix: what is chosen from; auto: all sub-policies' operations
  std::vector<double> weights_;  // rand with weights: of ops_, and then nothing is chosen twice
  std::vector<size_t> ends_;     // auto: where each sub-policy ends in ops_
  int layers_ = 2;               // rand
  int width_ = 3, depth_ = -1;   // augmix
  double alpha_ = 1;
  bool blended_ = false;
};

}  // namespace tessera::image
