#include "data/index/shard_names.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {

constexpr size_t kMaxNames = 10'000'000;
constexpr size_t kMaxNameBytes = size_t{1} << 30;  // of all together
constexpr int64_t kMaxBraces = 64;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "000..127" -> 000, 001, …; as wide as the wider end when one begins with a zero.
std::optional<std::vector<std::string>> number_range(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view low = text.substr(0, dots), high = text.substr(dots + 2);
  if (!is_number(low) || !is_number(high) || low.size() > 12 || high.size() > 12) return std::nullopt;
  const int64_t first = std::stoll(std::string(low)), last = std::stoll(std::string(high));
  const bool padded = (low.size() > 1 && low[0] == '0') || (high.size() > 1 && high[0] == '0');
  const size_t width = padded ? std::max(low.size(), high.size()) : 1;
  if (static_cast<uint64_t>(std::abs(last - first)) >= kMaxNames)
    throw data_error(fmt::format("`{{{}}}` is more than {} names", text, human_count(kMaxNames)));
  std::vector<std::string> names;
  for (int64_t i = first;; i += first <= last ? 1 : -1) {
    names.push_back(fmt::format("{:0{}}", i, width));
    if (i == last) return names;
  }
}

size_t closing_brace(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return std::string::npos;
}

std::vector<std::string> alternatives(const std::string& inside) {
  if (auto range = number_range(inside)) return *std::move(range);
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : inside) {
    depth += (c == '{') - (c == '}');
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::vector<std::string> all;
  for (const std::string& part : parts) {
    for (std::string& one : expand_braces(part)) all.push_back(std::move(one));
  }
  return all;
}

size_t total_size(const std::vector<std::string>& texts) {
  size_t size = 0;
  for (const std::string& text : texts) size += text.size();
  return size;
}

// "dir/train.tfrecord-00003-of-01024" -> ("dir/train.tfrecord-*-of-01024", 3, 1024).
struct ShardName {
  std::string set;
  int64_t number = 0, count = 0;
  size_t digits = 0;
};

std::optional<ShardName> shard_name(const std::string& path) {
  const size_t of = path.rfind("-of-");
  if (of == std::string::npos || path.find('/', of) != std::string::npos) return std::nullopt;
  size_t begin = of, end = of + 4;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(path[begin - 1]))) --begin;
  while (end < path.size() && std::isdigit(static_cast<unsigned char>(path[end]))) ++end;
  const size_t digits = of - begin, count_digits = end - of - 4;
  if (digits == 0 || digits > 12 || count_digits == 0 || count_digits > 12) return std::nullopt;
  return ShardName{path.substr(0, begin) + "*" + path.substr(of), std::stoll(path.substr(begin, digits)),
                   std::stoll(path.substr(of + 4, count_digits)), digits};
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern) {
  if (std::ranges::count(pattern, '{') > kMaxBraces) {
    throw data_error(fmt::format("`{}…` has more than {} braces", pattern.substr(0, 200), kMaxBraces));
  }
  const size_t open = pattern.find('{');
  const size_t close = open == std::string::npos ? open : closing_brace(pattern, open);
  if (close == std::string::npos) return {pattern};
  const std::vector<std::string> tails = expand_braces(pattern.substr(close + 1));
  const std::vector<std::string> middles = alternatives(pattern.substr(open + 1, close - open - 1));
  if (middles.size() > kMaxNames / tails.size())
    throw data_error(fmt::format("`{}` is more than {} names", pattern, human_count(kMaxNames)));
  if (open * middles.size() * tails.size() + total_size(middles) * tails.size() + total_size(tails) * middles.size() >
      kMaxNameBytes) {
    throw data_error(fmt::format("the names of `{}…` are too long", pattern.substr(0, 200)), {},
                     "put the files into folders, and name each folder as a source of its own");
  }
  std::vector<std::string> all;
  all.reserve(middles.size() * tails.size());
  const std::string head = pattern.substr(0, open);
  for (const std::string& middle : middles) {
    for (const std::string& tail : tails) all.emplace_back(head).append(middle).append(tail);
  }
  return all;
}

void check_shards_complete(const std::vector<std::string>& paths, const std::string& where) {
  struct Set {
    int64_t count = 0;
    size_t digits = 0;
    std::set<int64_t> there;  // so that memory follows from the files, and not from what their names claim
  };
  std::map<std::string, Set> sets;
  for (const std::string& path : paths) {
    const auto name = shard_name(path);
    if (!name || name->count > static_cast<int64_t>(kMaxNames) || name->number >= name->count) continue;
    Set& set = sets[name->set];
    set.count = name->count;
    set.digits = name->digits;
    set.there.insert(name->number);
  }
  for (const auto& [name, set] : sets) {
    const int64_t missing = set.count - std::ssize(set.there);
    if (missing == 0) continue;
    int64_t first = 0;
    while (set.there.contains(first)) ++first;
    std::string path = name;
    path.replace(path.rfind("*-of-"), 1, fmt::format("{:0{}}", first, set.digits));
    throw data_error(fmt::format("{} of the {} shards of `{}` {} missing, first `{}`", human_count(missing),
                                 human_count(set.count), name, missing == 1 ? "is" : "are", path),
                     where, "copy the missing files there; to use a part of the set, rename its files without -of-");
  }
}

}  // namespace tessera::data
