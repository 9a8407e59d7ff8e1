#include "image/augment/timm_tables.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tessera::image {
namespace {

using Scale = TimmScale;

double none(double, const Scale&, Rng&) { return 0; }
double signed_draw(double value, Rng& rng) { return rng.uniform() > 0.5 ? -value : value; }
double whole(double value) { return static_cast<double>(static_cast<int>(value)); }

double rotation(double level, const Scale&, Rng& rng) { return signed_draw(level / 10 * 30, rng); }
double shear(double level, const Scale&, Rng& rng) { return signed_draw(level / 10 * 0.3, rng); }
double translate_x(double level, const Scale& s, Rng& rng) { return signed_draw(level / 10 * s.translate, rng) * s.width; }
double translate_y(double level, const Scale& s, Rng& rng) { return signed_draw(level / 10 * s.translate, rng) * s.height; }
double enhance(double level, const Scale&, Rng&) { return level / 10 * 1.8 + 0.1; }
double enhance_increasing(double level, const Scale&, Rng& rng) {
  return std::max(0.1, 1.0 + signed_draw(level / 10 * 0.9, rng));
}
double posterize(double level, const Scale&, Rng&) { return whole(level / 10 * 4); }
double posterize_increasing(double level, const Scale&, Rng&) { return 4 - whole(level / 10 * 4); }
double posterize_original(double level, const Scale&, Rng&) { return whole(level / 10 * 4) + 4; }
double solarize(double level, const Scale&, Rng&) { return std::min(256.0, whole(level / 10 * 256)); }
double solarize_increasing(double level, const Scale& s, Rng& rng) { return 256 - solarize(level, s, rng); }
double solarize_add(double level, const Scale&, Rng&) { return std::min(128.0, whole(level / 10 * 110)); }
double between(double low, double high, double level) { return std::clamp(low + (high - low) * (level / 10), low, high); }
double desaturate(double level, const Scale&, Rng&) { return std::clamp(1 - between(0.5, 1, level), 0.0, 1.0); }
double blur(double level, const Scale&, Rng&) { return between(0.1, 2, level); }
double blur_random(double level, const Scale&, Rng& rng) { return rng.uniform(0.1, 2.0 * between(0, 1, level)); }

constexpr TimmOpRule kOps[] = {
    {"AutoContrast", AugmentOp::kAutoContrast, none},
    {"Equalize", AugmentOp::kEqualize, none},
    {"Invert", AugmentOp::kInvert, none},
    {"Rotate", AugmentOp::kRotate, rotation},
    {"Posterize", AugmentOp::kPosterize, posterize},
    {"PosterizeIncreasing", AugmentOp::kPosterize, posterize_increasing},
    {"PosterizeOriginal", AugmentOp::kPosterize, posterize_original},
    {"Solarize", AugmentOp::kSolarize, solarize},
    {"SolarizeIncreasing", AugmentOp::kSolarize, solarize_increasing},
    {"SolarizeAdd", AugmentOp::kSolarizeAdd, solarize_add},
    {"Color", AugmentOp::kColor, enhance},
    {"ColorIncreasing", AugmentOp::kColor, enhance_increasing},
    {"Contrast", AugmentOp::kContrast, enhance},
    {"ContrastIncreasing", AugmentOp::kContrast, enhance_increasing},
    {"Brightness", AugmentOp::kBrightness, enhance},
    {"BrightnessIncreasing", AugmentOp::kBrightness, enhance_increasing},
    {"Sharpness", AugmentOp::kSharpness, enhance},
    {"SharpnessIncreasing", AugmentOp::kSharpness, enhance_increasing},
    {"ShearX", AugmentOp::kShearX, shear},
    {"ShearY", AugmentOp::kShearY, shear},
    {"TranslateXRel", AugmentOp::kTranslateX, translate_x},
    {"TranslateYRel", AugmentOp::kTranslateY, translate_y},
    {"Desaturate", AugmentOp::kColor, desaturate},
    {"GaussianBlur", AugmentOp::kGaussianBlur, blur},
    {"GaussianBlurRand", AugmentOp::kGaussianBlur, blur_random},
};

constexpr TimmWeighted kRand[] = {{"AutoContrast", 1}, {"Equalize", 1},      {"Invert", 1},       {"Rotate", 1},
                                  {"Posterize", 1},    {"Solarize", 1},      {"SolarizeAdd", 1},  {"Color", 1},
                                  {"Contrast", 1},     {"Brightness", 1},    {"Sharpness", 1},    {"ShearX", 1},
                                  {"ShearY", 1},       {"TranslateXRel", 1}, {"TranslateYRel", 1}};
constexpr TimmWeighted kRandIncreasing[] = {{"AutoContrast", 1},
                                            {"Equalize", 1},
                                            {"Invert", 1},
                                            {"Rotate", 1},
                                            {"PosterizeIncreasing", 1},
                                            {"SolarizeIncreasing", 1},
                                            {"SolarizeAdd", 1},
                                            {"ColorIncreasing", 1},
                                            {"ContrastIncreasing", 1},
                                            {"BrightnessIncreasing", 1},
                                            {"SharpnessIncreasing", 1},
                                            {"ShearX", 1},
                                            {"ShearY", 1},
                                            {"TranslateXRel", 1},
                                            {"TranslateYRel", 1}};
constexpr TimmWeighted kRand3a[] = {{"SolarizeIncreasing", 1}, {"Desaturate", 1}, {"GaussianBlur", 1}};
constexpr TimmWeighted kWeighted3a[] = {{"SolarizeIncreasing", 6},
                                        {"Desaturate", 6},
                                        {"GaussianBlur", 6},
                                        {"Rotate", 3},
                                        {"ShearX", 2},
                                        {"ShearY", 2},
                                        {"PosterizeIncreasing", 1},
                                        {"AutoContrast", 1},
                                        {"ColorIncreasing", 1},
                                        {"SharpnessIncreasing", 1},
                                        {"ContrastIncreasing", 1},
                                        {"BrightnessIncreasing", 1},
                                        {"Equalize", 1},
                                        {"Invert", 1}};
constexpr TimmWeighted kWeighted[] = {{"Rotate", 3},
                                      {"ShearX", 2},
                                      {"ShearY", 2},
                                      {"TranslateXRel", 1},
                                      {"TranslateYRel", 1},
                                      {"ColorIncreasing", .25},
                                      {"SharpnessIncreasing", .25},
                                      {"AutoContrast", .25},
                                      {"SolarizeIncreasing", .05},
                                      {"SolarizeAdd", .05},
                                      {"ContrastIncreasing", .05},
                                      {"BrightnessIncreasing", .05},
                                      {"Equalize", .05},
                                      {"PosterizeIncreasing", .05},
                                      {"Invert", .05}};
constexpr TimmWeighted kAugMix[] = {{"AutoContrast", 1},
                                    {"ColorIncreasing", 1},
                                    {"ContrastIncreasing", 1},
                                    {"BrightnessIncreasing", 1},
                                    {"SharpnessIncreasing", 1},
                                    {"Equalize", 1},
                                    {"Rotate", 1},
                                    {"PosterizeIncreasing", 1},
                                    {"SolarizeIncreasing", 1},
                                    {"ShearX", 1},
                                    {"ShearY", 1},
                                    {"TranslateXRel", 1},
                                    {"TranslateYRel", 1}};

// From the TPU EfficientNet implementation; timm knows of no paper.
constexpr TimmSubPolicy kV0[] = {
    {{{"Equalize", 0.8, 1}, {"ShearY", 0.8, 4}}},        {{{"Color", 0.4, 9}, {"Equalize", 0.6, 3}}},
    {{{"Color", 0.4, 1}, {"Rotate", 0.6, 8}}},           {{{"Solarize", 0.8, 3}, {"Equalize", 0.4, 7}}},
    {{{"Solarize", 0.4, 2}, {"Solarize", 0.6, 2}}},      {{{"Color", 0.2, 0}, {"Equalize", 0.8, 8}}},
    {{{"Equalize", 0.4, 8}, {"SolarizeAdd", 0.8, 3}}},   {{{"ShearX", 0.2, 9}, {"Rotate", 0.6, 8}}},
    {{{"Color", 0.6, 1}, {"Equalize", 1.0, 2}}},         {{{"Invert", 0.4, 9}, {"Rotate", 0.6, 0}}},
    {{{"Equalize", 1.0, 9}, {"ShearY", 0.6, 3}}},        {{{"Color", 0.4, 7}, {"Equalize", 0.6, 0}}},
    {{{"Posterize", 0.4, 6}, {"AutoContrast", 0.4, 7}}}, {{{"Solarize", 0.6, 8}, {"Color", 0.6, 9}}},
    {{{"Solarize", 0.2, 4}, {"Rotate", 0.8, 9}}},        {{{"Rotate", 1.0, 7}, {"TranslateYRel", 0.8, 9}}},
    {{{"ShearX", 0.0, 0}, {"Solarize", 0.8, 4}}},        {{{"ShearY", 0.8, 0}, {"Color", 0.6, 4}}},
    {{{"Color", 1.0, 0}, {"Rotate", 0.6, 2}}},           {{{"Equalize", 0.8, 4}, {"Equalize", 0.0, 8}}},
    {{{"Equalize", 1.0, 4}, {"AutoContrast", 0.6, 2}}},  {{{"ShearY", 0.4, 7}, {"SolarizeAdd", 0.6, 7}}},
    {{{"Posterize", 0.8, 2}, {"Solarize", 0.6, 10}}},    {{{"Solarize", 0.6, 8}, {"Equalize", 0.6, 1}}},
    {{{"Color", 0.8, 6}, {"Rotate", 0.4, 5}}},
};

// Cubuk et al., "AutoAugment", arXiv 1805.09501, for ImageNet.
constexpr TimmSubPolicy kOriginal[] = {
    {{{"PosterizeOriginal", 0.4, 8}, {"Rotate", 0.6, 9}}},
    {{{"Solarize", 0.6, 5}, {"AutoContrast", 0.6, 5}}},
    {{{"Equalize", 0.8, 8}, {"Equalize", 0.6, 3}}},
    {{{"PosterizeOriginal", 0.6, 7}, {"PosterizeOriginal", 0.6, 6}}},
    {{{"Equalize", 0.4, 7}, {"Solarize", 0.2, 4}}},
    {{{"Equalize", 0.4, 4}, {"Rotate", 0.8, 8}}},
    {{{"Solarize", 0.6, 3}, {"Equalize", 0.6, 7}}},
    {{{"PosterizeOriginal", 0.8, 5}, {"Equalize", 1.0, 2}}},
    {{{"Rotate", 0.2, 3}, {"Solarize", 0.6, 8}}},
    {{{"Equalize", 0.6, 8}, {"PosterizeOriginal", 0.4, 6}}},
    {{{"Rotate", 0.8, 8}, {"Color", 0.4, 0}}},
    {{{"Rotate", 0.4, 9}, {"Equalize", 0.6, 2}}},
    {{{"Equalize", 0.0, 7}, {"Equalize", 0.8, 8}}},
    {{{"Invert", 0.6, 4}, {"Equalize", 1.0, 8}}},
    {{{"Color", 0.6, 4}, {"Contrast", 1.0, 8}}},
    {{{"Rotate", 0.8, 8}, {"Color", 1.0, 2}}},
    {{{"Color", 0.8, 8}, {"Solarize", 0.8, 7}}},
    {{{"Sharpness", 0.4, 7}, {"Invert", 0.6, 8}}},
    {{{"ShearX", 0.6, 5}, {"Equalize", 1.0, 9}}},
    {{{"Color", 0.4, 0}, {"Equalize", 0.6, 3}}},
    {{{"Equalize", 0.4, 7}, {"Solarize", 0.2, 4}}},
    {{{"Solarize", 0.6, 5}, {"AutoContrast", 0.6, 5}}},
    {{{"Invert", 0.6, 4}, {"Equalize", 1.0, 8}}},
    {{{"Color", 0.6, 4}, {"Contrast", 1.0, 8}}},
    {{{"Equalize", 0.8, 8}, {"Equalize", 0.6, 3}}},
};

// Touvron et al., "DeiT III", arXiv 2204.07118.
constexpr TimmSubPolicy k3a[] = {
    {{{"Solarize", 1.0, 5}, {}}},
    {{{"Desaturate", 1.0, 10}, {}}},
    {{{"GaussianBlurRand", 1.0, 10}, {}}},
};

constexpr TimmAutoPolicy kPolicies[] = {
    {"original", kOriginal, false}, {"originalr", kOriginal, true}, {"v0", kV0, false}, {"v0r", kV0, true}, {"3a", k3a, false},
};

}  // namespace

const TimmOpRule& timm_op(std::string_view name) {
  const auto* found = std::ranges::find(kOps, name, &TimmOpRule::name);
  TESSERA_CHECK(found != std::end(kOps), "{}", name);
  return *found;
}

std::optional<TimmChoices> timm_rand_choices(std::string_view set, bool increasing) {
  if (set == "weights") return TimmChoices{kWeighted, true};
  if (set == "3aw") return TimmChoices{kWeighted3a, true};
  if (set == "3a") return TimmChoices{kRand3a, false};
  if (!set.empty()) return std::nullopt;
  return increasing ? TimmChoices{kRandIncreasing, false} : TimmChoices{kRand, false};
}

std::span<const TimmWeighted> timm_augmix_ops() { return kAugMix; }

const TimmAutoPolicy* timm_auto_policy(std::string_view name) {
  const auto* found = std::ranges::find(kPolicies, name, &TimmAutoPolicy::name);
  return found == std::end(kPolicies) ? nullptr : found;
}

std::vector<std::string> timm_auto_policy_names() {
  std::vector<std::string> names;
  for (const TimmAutoPolicy& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

}  // namespace tessera::image
