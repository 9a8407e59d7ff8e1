#include "train/reporting/hyper_parameters.h"

#include "base/text/json.h"
#include "config/section.h"

namespace tessera::train {
namespace {

// A value as TOML writes it. What TOML's plain values and JSON's have in common is read as JSON.
monitor::HyperParameter value_of(const std::string& toml) {
  const auto json = read_json(toml).value;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (toml.size() >= 2 && toml.front() == '\'' && toml.back() == '\'') return toml.substr(1, toml.size() - 2);
  return toml;
}

}  // namespace

monitor::HyperParameters hyper_parameters(const std::string& recipe) {
  monitor::HyperParameters out;
  for (const config::Difference& key : config::difference("", recipe)) out.values.emplace_back(key.key, value_of(key.right));
  return out;
}

}  // namespace tessera::train
