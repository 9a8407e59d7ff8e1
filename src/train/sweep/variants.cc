#include "train/sweep/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/rng.h"
#include "base/text/text.h"

namespace tessera::sweep {
namespace {

constexpr int64_t kMaxOfARange = 1000;
constexpr int64_t kMaxVariants = 100'000;
constexpr size_t kLongestName = 80;

std::optional<int64_t> whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Parts between commas outside of quotes and brackets.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      quote = c == quote ? 0 : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
  }
  for (std::string& part : parts) part = trim(part);
  return parts;
}

// "patience=5 epochs".
bool is_option(const std::string& part) {
  const size_t equals = part.find('=');
  return equals != std::string::npos && equals < part.find_first_of("(\"'");
}

std::optional<std::vector<std::string>> range_of(const std::string& word, std::string_view value) {
  const size_t dots = value.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view after = value.substr(dots + 2);
  const size_t slash = std::min(after.find('/'), after.size());
  const std::string_view rest = after.substr(slash);  // of each value: "/5" of data.fold=0..4/5
  if (!rest.empty() && !whole(rest.substr(1))) return std::nullopt;
  const auto first = whole(value.substr(0, dots)), last = whole(after.substr(0, slash));
  if (!first || !last) return std::nullopt;
  if (*last < *first || *last - *first >= kMaxOfARange) {
    throw usage_error(fmt::format("`{}` is no range of at most {} numbers", word, human_count(kMaxOfARange)), {},
                      "for example seed=0..4");
  }
  std::vector<std::string> values;
  for (int64_t i = *first; i <= *last; ++i) values.push_back(fmt::format("{}{}", i, rest));
  return values;
}

int64_t count_of(const std::vector<Axis>& axes) {
  int64_t count = 1;
  for (const Axis& axis : axes) {
    count *= static_cast<int64_t>(axis.values.size());
    if (count > kMaxVariants)
      throw usage_error(fmt::format("these values make more than {} recipes", human_count(kMaxVariants)), {}, "give fewer");
  }
  return count;
}

Variant variant_at(const std::vector<Axis>& axes, int64_t index) {
  Variant variant(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    const auto size = static_cast<int64_t>(axes[i].values.size());
    variant[i] = {axes[i].key, axes[i].values[static_cast<size_t>(index % size)]};
    index /= size;
  }
  return variant;
}

}  // namespace

std::optional<Axis> parse_axis(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  const std::string_view value = trim(std::string_view(word).substr(equals + 1));
  Axis axis{std::string(trim(std::string_view(word).substr(0, equals))), {}};
  if (auto range = range_of(word, value)) {
    axis.values = std::move(*range);
    return axis;
  }
  axis.values = parts_of(value);
  if (axis.values.size() < 2 || std::any_of(axis.values.begin() + 1, axis.values.end(), is_option)) return std::nullopt;
  for (const std::string& one : axis.values) {
    if (one.empty()) throw usage_error(fmt::format("`{}` has an empty value", word), {}, "for example optimizer.lr=1e-4,3e-4");
  }
  std::vector<std::string> sorted = axis.values;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw usage_error(fmt::format("`{}` has {} twice", word, *twice), {}, "give each value once");
  return axis;
}

std::vector<Variant> grid(const std::vector<Axis>& axes) {
  std::vector<Variant> variants;
  for (int64_t i = 0; i < count_of(axes); ++i) variants.push_back(variant_at(axes, i));
  return variants;
}

std::vector<Variant> sample(const std::vector<Axis>& axes, int64_t count, uint64_t seed) {
  std::vector<Variant> all = grid(axes);
  const auto wanted = static_cast<size_t>(std::clamp<int64_t>(count, 0, static_cast<int64_t>(all.size())));
  Rng rng(seed, hash_name("sweep"));
  for (size_t i = 0; i < wanted; ++i) std::swap(all[i], all[i + rng.below(all.size() - i)]);
  all.resize(wanted);
  return all;
}

std::string text_of(const Variant& variant) {
  std::string text;
  for (const auto& [key, value] : variant) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

std::string file_name_of(const Variant& variant) {
  std::string name;
  for (const char c : text_of(variant)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '=' ||
                       c == '+' || c == '-' || c == '_';
    if (plain || (!name.empty() && name.back() != '_')) name += plain ? c : '_';
  }
  name.resize(std::min(name.size(), kLongestName));
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

}  // namespace tessera::sweep
