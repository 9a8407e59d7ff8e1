#include "train/evaluate/gather_rows.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text/base64.h"
#include "base/text/json.h"

namespace tessera::train {
namespace {

// One after the other, in the order of the processes.
template <class T>
std::vector<T> gathered(Processes& processes, const std::vector<T>& own) {
  std::vector<T> all;
  for (const std::string& bytes :
       processes.gather(std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(T)))) {
    const size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

// Names of files are any bytes.
std::string facts_of(const SetRows& rows) {
  nlohmann::json files = nlohmann::json::array();
  for (const data::SkippedFile& file : rows.files) {
    files.push_back({file.set, file.sample, base64(file.id), base64(file.reason)});
  }
  return nlohmann::json{{"width", rows.rows.features.width}, {"skipped", rows.skipped}, {"files", std::move(files)}}.dump();
}

void add_facts(const std::string& text, SetRows& all) {
  const nlohmann::json json = parse_json(text, "an evaluation of another process");
  const auto bytes = [](const nlohmann::json& value) { return bytes_of_base64(value.get<std::string>()).value_or(""); };
  all.rows.features.width = std::max(all.rows.features.width, json.at("width").get<int64_t>());
  all.skipped += json.at("skipped").get<int64_t>();
  for (const nlohmann::json& file : json.at("files")) {
    all.files.push_back({file.at(0).get<int32_t>(), file.at(1).get<int64_t>(), bytes(file.at(2)), bytes(file.at(3))});
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
  evaluators::Rows& rows = all.rows;
  rows.samples = gathered(processes, own.rows.samples);
  rows.labels = gathered(processes, own.rows.labels);
  rows.multi_hot = gathered(processes, own.rows.multi_hot);
  rows.features.values = gathered(processes, own.rows.features.values);
  for (const std::string& facts : processes.gather(facts_of(own))) add_facts(facts, all);

  std::vector<size_t> order(rows.samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t row) { return rows.samples[row]; });
  rows.features.values = in_order(rows.features.values, order, static_cast<size_t>(rows.features.width));
  if (!rows.labels.empty()) rows.labels = in_order(rows.labels, order);
  if (!rows.multi_hot.empty()) rows.multi_hot = in_order(rows.multi_hot, order, rows.multi_hot.size() / order.size());
  rows.samples = in_order(rows.samples, order);
  std::ranges::sort(all.files, {}, &data::SkippedFile::sample);
  return all;
}

}  // namespace tessera::train
