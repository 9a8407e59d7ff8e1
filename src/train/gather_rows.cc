#include "train/gather_rows.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace tessera::train {
namespace {

using Json = nlohmann::json;

template <class T>
Json bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  return Json::binary(std::vector<uint8_t>(begin, begin + values.size() * sizeof(T)));
}

template <class T>
void append(const Json& bytes, std::vector<T>& values) {
  const std::vector<uint8_t>& from = bytes.get_binary();
  const size_t before = values.size();
  values.resize(before + from.size() / sizeof(T));
  if (!from.empty()) std::memcpy(values.data() + before, from.data(), from.size());
}

std::string packed(const SetRows& rows) {
  Json files = Json::array();
  for (const data::SkippedFile& file : rows.files) {
    files.push_back({file.set, file.sample, Json::binary({file.id.begin(), file.id.end()}),
                     Json::binary({file.reason.begin(), file.reason.end()})});
  }
  const evaluators::Rows& of = rows.rows;
  const Json json{{"samples", bytes_of(of.samples)}, {"labels", bytes_of(of.labels)}, {"values", bytes_of(of.features.values)},
                  {"width", of.features.width},      {"skipped", rows.skipped},       {"files", std::move(files)}};
  const std::vector<uint8_t> bytes = Json::to_msgpack(json);
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Json& bytes) { return {bytes.get_binary().begin(), bytes.get_binary().end()}; }

void append(const std::string& bytes, SetRows& all) {
  const Json json = Json::from_msgpack(bytes);
  append(json["samples"], all.rows.samples);
  append(json["labels"], all.rows.labels);
  append(json["values"], all.rows.features.values);
  all.rows.features.width = std::max(all.rows.features.width, json["width"].get<int64_t>());
  all.skipped += json["skipped"].get<int64_t>();
  for (const Json& file : json["files"]) {
    all.files.push_back({file[0].get<int32_t>(), file[1].get<int64_t>(), text_of(file[2]), text_of(file[3])});
  }
}

// Rows of `width` values each, as `order` has them.
template <class T>
std::vector<T> in_order(const std::vector<T>& values, const std::vector<size_t>& order, size_t width = 1) {
  std::vector<T> out;
  out.reserve(values.size());
  for (const size_t row : order) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * width);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

}  // namespace

SetRows gather(Processes& processes, SetRows own) {
  if (!processes.several()) return own;
  SetRows all;
  for (const std::string& bytes : processes.gather(packed(own))) append(bytes, all);
  evaluators::Rows& rows = all.rows;
  std::vector<size_t> order(rows.samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t row) { return rows.samples[row]; });
  rows.features.values = in_order(rows.features.values, order, static_cast<size_t>(rows.features.width));
  if (!rows.labels.empty()) rows.labels = in_order(rows.labels, order);
  rows.samples = in_order(rows.samples, order);
  std::ranges::sort(all.files, {}, &data::SkippedFile::sample);
  return all;
}

}  // namespace tessera::train
