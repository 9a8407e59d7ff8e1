#include "recipe/data_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/hash.h"
#include "base/printable.h"
#include "base/text/text.h"

namespace tessera::recipe {
namespace {

constexpr int64_t kMaxSourceSize = int64_t{1} << 21;

std::string listed(const std::vector<std::string>& names, const char* what) {
  constexpr size_t kShown = 5;
  if (names.empty()) return "";
  const std::vector<std::string> shown(names.begin(), names.begin() + std::min<ptrdiff_t>(std::ssize(names), kShown));
  const std::string count = names.size() == 1 ? fmt::format("1 image is {}", what)
                                              : fmt::format("{} images are {}", human_count(std::ssize(names)), what);
  return fmt::format("\n  {}: {}{}", count, join(shown, ", "), names.size() > kShown ? ", …" : "");
}

bool has_names(const Data& opened) {
  const auto unnamed = [](const data::DataSet& set) {
    const data::SourceFacts facts = set.source->facts();
    return facts.shards > 0 && !facts.lists;
  };
  return opened.size() <= kMaxSourceSize && std::ranges::none_of(opened.sets, unnamed);
}

std::string_view bytes_of(const std::vector<int32_t>& labels) {
  return {reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof(int32_t)};
}

}  // namespace

std::optional<std::vector<std::string>> data_names(const Data& opened) {
  if (!has_names(opened)) return std::nullopt;
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(opened.size()));
  for (const data::DataSet& set : opened.sets) {
    const std::string prefix = opened.sets.size() > 1 ? set.name + ": " : "";
    for (int64_t i = 0; i < set.source->size(); ++i) names.push_back(prefix + one_line(set.source->id(i)));
  }
  return names;
}

std::string names_hash(const Data& opened) {
  if (!has_names(opened)) return "";
  Hasher hasher;
  for (const data::DataSet& set : opened.sets) {
    const data::Source& source = *set.source;
    for (int64_t i = 0; i < source.size(); ++i) hasher.add(source.id(i));
    if (const auto labels = source.labels()) hasher.add(bytes_of(*labels));
    if (source.multi_label()) {
      const auto lists = source.label_lists();
      for (size_t i = 0; lists && i < lists->size(); ++i) hasher.add(bytes_of((*lists)[i]));
    }
  }
  return to_string(hasher.finish());
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

std::string name_changes(const std::string& before, const std::vector<std::string>& now) {
  std::vector<std::string> old = split(before, '\n'), current = now, added, gone;
  if (!old.empty() && old.back().empty()) old.pop_back();
  std::ranges::sort(old);
  std::ranges::sort(current);
  std::ranges::set_difference(current, old, std::back_inserter(added));
  std::ranges::set_difference(old, current, std::back_inserter(gone));
  return listed(added, "new") + listed(gone, "gone");
}

}  // namespace tessera::recipe
