#pragma once
// The one way to read JSON. Files of others may nest so deep that whatever walks their values runs out of stack, hold more than
// memory does, or say a key twice so that two programs read two things: all of that is refused while it is read.
// tests/house fails where a text is given to nlohmann's parser elsewhere.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr size_t kMaxJsonDepth = 64;

struct JsonLimits {
  size_t bytes = size_t{64} << 20;
  size_t values = 4'000'000;  // texts, numbers, lists, objects, …; a value takes up to some 150 bytes of memory
};

// What the parser meets, one by one. Whatever reads JSON so checks itself what the limits are for.
using JsonEvents = nlohmann::json_sax<nlohmann::json>;
// Until a call returns false or the text ends. The one place that nlohmann's parser is compiled in: each kind of `events` that it
// were given directly would cost seconds.
void read_json_events(std::string_view text, JsonEvents& events);

// A value, or why there is none ("line 2, column 7 is not JSON").
struct JsonResult {
  nlohmann::json value;
  std::string problem;  // empty: none
};
JsonResult read_json(std::string_view text, const JsonLimits& limits = {});

// The same, but throws a data Error at `where`.
nlohmann::json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits = {});
// Keeps the order of keys. Finding a key takes time with their number.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where, const JsonLimits& limits = {});

// A whole number in [least, most]; nlohmann's own conversion cuts off what is none. Throws a data Error without a place: "1.5 in
// place of a whole number".
int64_t json_integer(const nlohmann::ordered_json& value, int64_t least, int64_t most);

// A number, or where JSON has none of it "nan", "inf" or "-inf", which Python's float() and pandas.to_numeric() take.
nlohmann::ordered_json json_of_float(float value);

}  // namespace tessera
