#pragma once
// A page put together piece by piece. What is given as text is escaped, whoever wrote it (base/text/markup.h); only Markup goes in
// as it is.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "base/text/markup.h"

namespace tessera::report {

// HTML of our own making.
struct Markup {
  std::string text;
};

class Html {
 public:
  // add("<td>{}</td>", name): the format is HTML, its arguments are text, numbers or Markup.
  template <class... Args>
  void add(std::string_view format, const Args&... args) {
    out_ += fmt::format(fmt::runtime(format), inert(args)...);
  }
  void add(const Markup& markup) { out_ += markup.text; }
  Markup take() { return {std::move(out_)}; }

 private:
  static const std::string& inert(const Markup& markup) { return markup.text; }
  template <class Value>
  static auto inert(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>) {
      return value;
    } else {
      return escape_markup(std::string_view(value));
    }
  }
  std::string out_;
};

// Prose in which no line ends between a number and its " %". What readers copy (recipes, commands) stays as it is.
std::string keep_percentages(std::string_view text);

// Prose: text between backquotes, as messages write names of keys and files, becomes <code>; percentages are kept.
Markup with_code(std::string_view text);

// "data:image/png;base64,…" of a file's bytes.
std::string data_uri(std::string_view mime, std::basic_string_view<unsigned char> bytes);

}  // namespace tessera::report
