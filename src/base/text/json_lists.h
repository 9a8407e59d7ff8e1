#pragma once
// Lists in JSON files that are too large to be in memory as values: COCO's annotations.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// A list that the file's one object has under `key`: of each of its objects the fields `fields` that are texts, numbers or yes or no
// are given to `take`, in order, as one object. What else is in it is read and left.
struct JsonList {
  std::string key;
  std::vector<std::string> fields;
  std::function<void(nlohmann::json&& element)> take;
};

// Reads the text once and keeps one element at a time. A list that the file lacks has no elements. Throws a data Error at `where` for
// what is no JSON, no object, and a list that is none of objects; and what `take` throws. Depth is limited as in base/text/json.h.
void read_json_lists(std::string_view text, const std::string& where, const std::vector<JsonList>& lists);

}  // namespace tessera
