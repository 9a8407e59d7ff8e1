#include "recipe/translate/timm_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::translate {
namespace {

constexpr TimmInput kInputs[] = {
#define TIMM_INPUT(name, tag, size, crop, interpolation, mean, std) {name, tag, size, crop, interpolation, mean, std},
#include "recipe/translate/timm_inputs.def"
#undef TIMM_INPUT
};

}  // namespace

const TimmInput* find_timm_input(const std::string& name) {
  const auto found = std::ranges::find_if(kInputs, [&](const TimmInput& input) { return input.name == name; });
  return found == std::end(kInputs) ? nullptr : found;
}

std::vector<std::string> timm_input_names() {
  std::vector<std::string> names;
  for (const TimmInput& one : kInputs) names.emplace_back(one.name);
  return names;
}

std::string TimmChains::channels(const std::string& name, const char* own) const {
  std::vector<double> values = args_.numbers(name);
  if (values.empty()) return own;
  if (values.size() == 1 && in_channels() == 1) return number_text(values[0]);
  if (values.size() == 1) values.assign(3, values[0]);
  if (values.size() != 3) throw usage_error(fmt::format("`--{}` takes one number or three", name));
  return numbers_text(values);
}

std::string TimmChains::mean() const { return channels("mean", input_.mean); }

std::string TimmChains::normalise() const {
  return fmt::format("{}normalise(mean={}, std={})", in_channels() == 1 ? "grayscale | " : "", mean(),
                     channels("std", input_.std));
}

int64_t TimmChains::in_channels() const {
  const int64_t count = args_.integer("in_chans");
  if (count != 1 && count != 3) throw usage_error(fmt::format("`--in-chans {}` is not there", count), {}, "1 or 3");
  if (count == 1 && (args_.numbers("mean").size() != 1 || args_.numbers("std").size() != 1)) {
    throw usage_error("with `--in-chans 1`, `--mean` and `--std` must be one number each", {},
                      "--in-chans 1 --mean 0.449 --std 0.226");
  }
  return count;
}

// transforms_imagenet_train.
std::string TimmChains::train() const {
  if (args_.flag("no_aug")) {
    return fmt::format("decode | resize_small({}, interpolation={}) | central_crop({}) | {}", size_, eval_interpolation(),
                       size_, normalise());
  }
  std::vector<std::string> ops = {"decode"};
  for (std::string& op : crop()) ops.push_back(std::move(op));
  const auto probable = [&](const char* argument, const char* op, double standard) {
    const double p = args_.number(argument);
    if (p > 0) ops.push_back(p == standard ? op : fmt::format("{}(p={})", op, number_text(p)));
  };
  probable("hflip", "flip_lr", 0.5);
  probable("vflip", "flip_ud", 0.5);
  if (args_.integer("aug_splits") > 0) ops.push_back(fmt::format("split({})", args_.integer("aug_splits")));
  if (args_.given("aa")) ops.push_back(policy());
  const bool jitters = !args_.given("aa") || args_.text("aa").find("3a") != std::string::npos;
  if (jitters && args_.number("color_jitter") > 0) ops.push_back(jitter());
  probable("grayscale_prob", "random_grayscale", -1);
  probable("gaussian_blur_prob", "gaussian_blur", -1);
  ops.push_back(normalise());
  if (args_.number("reprob") > 0) {
    ops.push_back(fmt::format("random_erasing({}, mode={}, count={})", number_text(args_.number("reprob")),
                              args_.text("remode"), args_.integer("recount")));
  }
  return join(ops, " | ");
}

std::string TimmChains::train_interpolation() const {
  const std::string name = args_.text("train_interpolation");
  return name.empty() ? eval_interpolation() : name;
}

std::vector<std::string> TimmChains::crop() const {
  const std::string mode = args_.text("train_crop_mode");
  const std::vector<double> scale = args_.numbers("scale"), ratio = args_.numbers("ratio");
  if (scale.size() != 2) throw usage_error("`--scale` takes two numbers", {}, "--scale 0.08 1");
  if (ratio.size() != 2) throw usage_error("`--ratio` takes two numbers", {}, "--ratio 0.75 1.3333");
  if (mode == "rkrc" || mode == "rkrr") {
    return {fmt::format("resize_keep_ratio({}, scale_prob=0.5, scale={}, aspect_prob=0.5, aspect={}, interpolation={})", size_,
                        numbers_text(scale), numbers_text(ratio), train_interpolation()),
            fmt::format("{}({}, padding=reflect)", mode == "rkrc" ? "central_crop_or_pad" : "random_crop_or_pad", size_)};
  }
  if (!mode.empty() && mode != "rrc") {
    throw usage_error(fmt::format("`--train-crop-mode` is `{}`", mode), {}, "rrc, rkrc or rkrr");
  }
  std::string out = fmt::format("random_resized_crop({}", size_);
  if (args_.given("scale")) out += ", scale=" + numbers_text(scale);
  if (args_.given("ratio")) out += ", ratio=" + numbers_text(ratio);
  return {fmt::format("{}, interpolation={})", out, train_interpolation())};
}

// Filled with the mean, as timm rounds it: halves to even.
std::string TimmChains::policy() const {
  std::vector<double> fill;
  for (const std::string& part : split(std::string_view(mean()).substr(1, mean().size() - 2), ',')) {
    fill.push_back(std::min(255.0, std::nearbyint(255 * parse_number(trim(part)).value_or(0))));
  }
  std::string out = "auto_augment(" + args_.text("aa");
  if (train_interpolation() != "random") out += ", interpolation=" + train_interpolation();
  return out + ", fill=" + numbers_text(fill) + ")";
}

std::string TimmChains::jitter() const {
  const std::string factor = number_text(args_.number("color_jitter"));
  const auto p = args_.optional_number("color_jitter_prob");
  return p ? fmt::format("color_jitter({}, p={})", factor, number_text(*p)) : fmt::format("color_jitter({})", factor);
}

std::string TimmChains::eval_interpolation() const {
  const std::string own = args_.text("interpolation");
  return own.empty() ? input_.interpolation : own;
}

// transforms_imagenet_eval.
std::string TimmChains::eval() const {
  const double crop = args_.number("crop_pct") > 0 ? args_.number("crop_pct") : input_.crop;
  return fmt::format("decode | resize_small({}, interpolation={}) | central_crop({}) | {}",
                     static_cast<int64_t>(std::floor(static_cast<double>(size_) / crop)), eval_interpolation(), size_,
                     normalise());
}

}  // namespace tessera::translate
