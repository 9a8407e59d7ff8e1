#include <algorithm>

#include "base/text/json.h"
#include "base/text/json_lists.h"
#include "base/text/pattern.h"
#include "fuzz/targets.h"

namespace tessera::fuzz {
namespace {

size_t depth_of(const nlohmann::json& json) {
  size_t deepest = 0;
  if (!json.is_structured()) return 0;
  for (const nlohmann::json& inner : json) deepest = std::max(deepest, depth_of(inner));
  return deepest + 1;
}

// What is taken nests as deep as it may at most, is what nlohmann's own reader makes of it, and is read again as it was
// written.
bool json(std::string_view bytes) {
  const JsonResult read = read_json(bytes);
  const bool ordered = parses([&] {
    parse_ordered_json(bytes, "fuzz");
    return true;
  });
  TESSERA_CHECK(ordered == read.problem.empty());
  if (!ordered) return false;
  TESSERA_CHECK(depth_of(read.value) <= kMaxJsonDepth && nlohmann::json::parse(bytes) == read.value);
  TESSERA_CHECK(read_json(read.value.dump()).value == read.value);
  read_json(bytes, {.values = bytes.size() / 8});
  parses([&] { return parse_json(bytes, "fuzz", {.bytes = bytes.size() / 2}).is_null(); });
  parses([&] {
    const int64_t number = json_integer(parse_ordered_json(bytes, "fuzz"), -10, 1000);
    TESSERA_CHECK(read.value == number && number >= -10 && number <= 1000);
    return true;
  });
  return true;
}

// Where the whole text is read as values, the lists hold what they hold there.
bool json_lists(std::string_view bytes) {
  const JsonResult whole = read_json(bytes);
  size_t elements = 0, fields = 0;
  const bool taken = parses([&] {
    read_json_lists(bytes, "fuzz", {{"list", {"a", "b"}, [&](nlohmann::json&& element) {
                                       TESSERA_CHECK(element.is_object() && element.size() <= 2);
                                       ++elements, fields += element.size();
                                     }}});
    return true;
  });
  if (!taken || !whole.problem.empty()) return taken;  // a key that is there twice is left here
  TESSERA_CHECK(whole.value.is_object());
  const auto list = whole.value.find("list");
  TESSERA_CHECK(elements == (list == whole.value.end() ? 0 : list->size()));
  size_t expected = 0;
  if (elements > 0) {
    for (const nlohmann::json& element : *list) {
      for (const char* name : {"a", "b"}) expected += element.contains(name) && !element[name].is_structured();
    }
  }
  TESSERA_CHECK(fields == expected);
  return true;
}

// A pattern up to the first zero byte, and a name behind it; or a rule "PATTERN = VALUE".
bool pattern(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string_view name = end < bytes.size() ? bytes.substr(end + 1) : std::string_view();
  return parses([&] {
    const auto rule = split_rule(bytes.substr(0, end));
    const Pattern pattern(rule ? rule->first : std::string(bytes.substr(0, end)), "fuzz");
    const std::vector<std::string> names = {std::string(name), "head/kernel", "encoder/blocks/mlp/bias"};
    const bool any = pattern.matches(names[0]) || pattern.matches(names[1]) || pattern.matches(names[2]);
    TESSERA_CHECK(unmatched(pattern, names, "parameter").has_value() != any);
    return true;
  });
}

}  // namespace

const std::vector<NamedTarget>& base_targets() {
  static const std::vector<NamedTarget> all = {
      {"json", json, 1024}, {"json_lists", json_lists, 512}, {"pattern", pattern, 512}};
  return all;
}

}  // namespace tessera::fuzz
