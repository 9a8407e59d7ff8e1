#include "monitor/wandb/values.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera::monitor {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// Those of a float are the fewest digits that read back as the same float.
template <class Float>
std::string number_json(Float value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{}", value);
}

}  // namespace

std::string wandb_json(double value) { return number_json(value); }

std::string wandb_json(const MetricValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return text_of(*text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<float>(&value)) return number_json(*number);
  return number_json(std::get<double>(value));
}

std::string wandb_json(const HyperParameter& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return number_json(*number);
  return text_of(std::get<std::string>(value));
}

std::string wandb_json(const Histogram& histogram) {
  std::vector<double> edges;
  const auto parts = static_cast<double>(histogram.counts.size());
  for (size_t i = 0; i <= histogram.counts.size(); ++i) {
    edges.push_back(histogram.least + (histogram.greatest - histogram.least) * static_cast<double>(i) / parts);
  }
  return Json({{"_type", "histogram"}, {"values", histogram.counts}, {"bins", edges}}).dump();
}

std::string wandb_json(const Images& images, const std::vector<std::string>& files) {
  const image::Image& first = images.images.at(0);
  const Json json = {{"_type", "images/separated"}, {"width", first.width()}, {"height", first.height()}, {"format", "png"},
                     {"count", files.size()},       {"filenames", files}};
  return json.dump();
}

bool is_wandb_media(const std::string& json) { return json.starts_with('{'); }

WandbItems wandb_items(const Scalars& scalars) {
  WandbItems items;
  for (const Metric& metric : scalars.metrics) items.emplace_back(metric.name, wandb_json(metric.value));
  return items;
}

WandbItems wandb_items(const MetricRow& row) {
  WandbItems items;
  for (const auto& [name, value] : row.values) {
    if (name != "step") items.emplace_back(name, wandb_json(value));
  }
  return items;
}

}  // namespace tessera::monitor
