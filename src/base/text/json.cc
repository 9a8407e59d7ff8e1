#include "base/text/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr int kNumberTooLarge = 406;  // of nlohmann's exceptions

// "line 2, column 7" of the `position`-th byte, counted from 1.
std::string place_of(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, std::min(text.size(), position == 0 ? 0 : position - 1));
  const auto line = 1 + std::ranges::count(before, '\n');
  return fmt::format("line {}, column {}", line, before.size() - (before.rfind('\n') + 1) + 1);  // npos + 1 is 0
}

// Puts values together as the parser meets them.
template <class Json>
class JsonBuilder final : public JsonEvents {
  static constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;

 public:
  JsonBuilder(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& object = open_.back()->template get_ref<typename Json::object_t&>();
    bool is_new = false;
    if constexpr (kOrdered) {
      // Its own emplace compares with every key before.
      is_new = names_.back().insert(name).second;
      if (is_new) member_ = &object.emplace_back(name, nullptr).second;
    } else {
      const auto [place, inserted] = object.try_emplace(name);
      is_new = inserted, member_ = &place->second;
    }
    return is_new || fail(fmt::format("the key `{}` is given twice in one object", name.substr(0, 100)));
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    const std::string place = place_of(text_, position);
    return fail(error.id == kNumberTooLarge ? fmt::format("the number at {} is too large", place)
                                            : fmt::format("{} is not JSON", place));
  }

  Json root;
  std::string problem;

 private:
  bool fail(std::string what) { return problem = std::move(what), false; }

  template <class Value>
  bool add(Value&& value) {
    return put(std::forward<Value>(value)) != nullptr;
  }

  template <class Value>
  Json* put(Value&& value) {
    if (++values_ > limits_.values) {
      fail(fmt::format("it holds more than {} values", human_count(static_cast<int64_t>(limits_.values))));
      return nullptr;
    }
    if (open_.empty()) return &(root = std::forward<Value>(value));
    if (open_.back()->is_object()) return &(*member_ = std::forward<Value>(value));
    return &open_.back()->template get_ref<typename Json::array_t&>().emplace_back(std::forward<Value>(value));
  }

  bool open(Json value) {
    if (open_.size() == kMaxJsonDepth) return fail(fmt::format("it nests more than {} levels deep", kMaxJsonDepth));
    Json* place = put(std::move(value));
    if (place == nullptr) return false;
    open_.push_back(place);
    if constexpr (kOrdered) names_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    if constexpr (kOrdered) names_.pop_back();
    return true;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  size_t values_ = 0;
  std::vector<Json*> open_;                   // the objects and arrays around what comes next
  Json* member_ = nullptr;                    // of the last key
  std::vector<std::set<std::string>> names_;  // of the open values' keys
};

template <class Json>
std::string build(std::string_view text, const JsonLimits& limits, Json& out) {
  if (text.size() > limits.bytes) {
    return fmt::format("it has {}, more than {}", human_bytes(static_cast<double>(text.size())),
                       human_bytes(static_cast<double>(limits.bytes)));
  }
  JsonBuilder<Json> builder(text, limits);
  read_json_events(text, builder);
  if (builder.problem.empty()) out = std::move(builder.root);
  return std::move(builder.problem);
}

Error no_json(const std::string& problem, const std::string& where) {
  return data_error("cannot be read as JSON: " + problem, where, "copy or make the file again, or name another");
}

template <class Json>
Json build_or_throw(std::string_view text, const std::string& where, const JsonLimits& limits) {
  Json json;
  const std::string problem = build(text, limits, json);
  if (!problem.empty()) throw no_json(problem, where);
  return json;
}

}  // namespace

void read_json_events(std::string_view text, JsonEvents& events) {
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
}

JsonResult read_json(std::string_view text, const JsonLimits& limits) {
  JsonResult result;
  result.problem = build(text, limits, result.value);
  return result;
}

nlohmann::json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  return build_or_throw<nlohmann::json>(text, where, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  return build_or_throw<nlohmann::ordered_json>(text, where, limits);
}

int64_t json_integer(const nlohmann::ordered_json& value, int64_t least, int64_t most) {
  const auto wide = [&] { return value.is_number_unsigned() && !std::in_range<int64_t>(value.get<uint64_t>()); };
  if (!value.is_number_integer() || wide()) {
    throw data_error(fmt::format("{} in place of a whole number",
                                 value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
  }
  const auto number = value.get<int64_t>();
  if (number < least || number > most)
    throw data_error(fmt::format("{}, which is no number from {} to {}", number, least, most));
  return number;
}

nlohmann::ordered_json json_of_float(float value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace tessera
