// Arguments that several ops share.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"
#include "data/transform/pp_op.h"
#include "image/ops/window.h"

namespace tessera::data {
namespace {

constexpr int kMaxSide = 16384;

[[noreturn]] void unknown_interpolation(const CallReader& call, const std::string& name,
                                        const std::vector<std::string>& names) {
  call.fail(fmt::format("unknown interpolation `{}`", name), suggest_name(name, names));
}

}  // namespace

int to_side(const CallReader& call, std::string_view name, std::string_view text) {
  const std::optional<double> side = parse_number(text);
  if (!side || *side != std::floor(*side) || *side < 1 || *side > kMaxSide) {
    call.fail(fmt::format("`{}` must be a whole number of pixels from 1 to {}, not `{}`", name, kMaxSide, text));
  }
  return static_cast<int>(*side);
}

int read_side(CallReader& call, std::string_view name) { return to_side(call, name, call.text(name)); }

int read_side_or(CallReader& call, std::string_view name, int fallback) {
  return to_side(call, name, call.text(name, fmt::format("{}", fallback)));
}

PpSize read_size(CallReader& call) {
  const int width = read_side(call, "size");
  const std::string height = call.text("h", "");
  return {width, height.empty() ? width : to_side(call, "h", height)};
}

void set_size(PpShape& shape, PpSize size) {
  shape.width = size.width;
  shape.height = size.height;
  shape.short_side = std::min(size.width, size.height);
}

std::optional<image::Filter> read_filter_or_random(CallReader& call, std::string_view fallback) {
  const std::string name = call.text("interpolation", std::string(fallback));
  if (name == "random") return std::nullopt;
  const std::optional<image::Filter> filter = image::parse_filter(name);
  std::vector<std::string> names = image::filter_names();
  names.emplace_back("random");
  if (!filter) unknown_interpolation(call, name, names);
  return filter;
}

image::Filter choose_filter(const std::optional<image::Filter>& filter, Rng& rng) {
  if (filter) return *filter;
  return rng.uniform() < 0.5 ? image::Filter::kBilinear : image::Filter::kBicubic;
}

bool read_tensorflow(CallReader& call) {
  const std::string name = call.text("library", "pillow");
  if (name != "pillow" && name != "tensorflow") {
    call.fail(fmt::format("unknown library `{}`", name), suggest_name(name, {"pillow", "tensorflow"}));
  }
  return name == "tensorflow";
}

image::ResizeMethod read_method(CallReader& call, image::TensorflowFilter tensorflow_fallback, bool antialias_fallback) {
  const std::string name = call.text("interpolation", "");
  const bool tensorflow = read_tensorflow(call);
  const bool given = call.has("antialias");
  const bool antialias = call.boolean("antialias", antialias_fallback);
  if (!tensorflow) {
    if (given) call.fail("`antialias` goes with library=tensorflow; Pillow's resize always antialiases");
    const std::optional<image::Filter> filter = image::parse_filter(name.empty() ? "bilinear" : name);
    if (!filter) unknown_interpolation(call, name, image::filter_names());
    return *filter;
  }
  const std::optional<image::TensorflowFilter> filter =
      name.empty() ? tensorflow_fallback : image::parse_tensorflow_filter(name);
  if (!filter) unknown_interpolation(call, name, image::tensorflow_filter_names());
  return image::TensorflowMethod{*filter, antialias};
}

double read_probability(CallReader& call, std::string_view name, std::optional<double> fallback) {
  const double p = call.number(name, fallback);
  if (p < 0 || p > 1) call.fail(fmt::format("`{}` is a probability, from 0 to 1", name));
  return p;
}

image::Padding read_padding(CallReader& call) {
  const std::string name = call.text("padding", "constant");
  if (name != "constant" && name != "reflect") {
    call.fail(fmt::format("unknown padding `{}`", name), suggest_name(name, {"constant", "reflect"}));
  }
  return {name == "reflect", read_rgb(call, "fill", {0})};
}

image::Rgb read_rgb(CallReader& call, std::string_view name, std::vector<double> fallback) {
  std::vector<double> values = call.numbers(name, std::move(fallback));
  if (values.size() == 1) values.resize(3, values[0]);
  image::Rgb colour{};
  const bool fits = values.size() == 3 && std::ranges::all_of(values, [](double v) { return v >= 0 && v <= 255; });
  if (!fits) call.fail(fmt::format("`{}` takes one level or three (red, green, blue), from 0 to 255", name));
  for (size_t c = 0; c < 3; ++c) colour[c] = static_cast<uint8_t>(round_half_even(values[c]));
  return colour;
}

}  // namespace tessera::data
