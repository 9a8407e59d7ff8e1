#pragma once
// timm's operations and policies (timm/data/auto_augment.py, timm 1.0): names, what a level means, and which are chosen how.

#include <optional>
#include <span>
#include <string_view>

#include "base/rng.h"
#include "image/augment/step.h"

namespace tessera::image {

// What the levels of a policy depend on.
struct TimmScale {
  double translate = 0.45;  // the largest shift at level 10, as a part of the side
  int width = 0, height = 0;
};

// An operation under timm's name. argument(level, …) -> the step's value, with the sign drawn where there is one.
struct TimmOpRule {
  std::string_view name;
  AugmentOp op;
  double (*argument)(double level, const TimmScale& scale, Rng& rng);
};
const TimmOpRule& timm_op(std::string_view name);

struct TimmWeighted {
  std::string_view name;
  double weight;
};
// The operations of RandAugment: `set` is what follows t in its word, or empty; nothing for an unknown one. Without weights
// (weighted is false) all are as likely, and the same may come twice.
struct TimmChoices {
  std::span<const TimmWeighted> ops;
  bool weighted;
};
std::optional<TimmChoices> timm_rand_choices(std::string_view set, bool increasing);
std::span<const TimmWeighted> timm_augmix_ops();

// AutoAugment: one sub-policy is chosen, and its operations follow each other. An empty name ends a sub-policy of one.
struct TimmPolicyOp {
  std::string_view name;
  double prob;
  double level;
};
using TimmSubPolicy = std::array<TimmPolicyOp, 2>;
struct TimmAutoPolicy {
  std::string_view name;
  std::span<const TimmSubPolicy> choices;
  bool research_posterize;  // PosterizeIncreasing in the place of the policy's own posterize
};
const TimmAutoPolicy* timm_auto_policy(std::string_view name);
std::vector<std::string> timm_auto_policy_names();

}  // namespace tessera::image
