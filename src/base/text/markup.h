#pragma once
// Text of others in HTML, SVG and XML. Everything that such a file shows goes through here, and nowhere else is it escaped.

#include <string>
#include <string_view>

namespace tessera {

// Printable (base/printable.h), with & < > " ' as entities: inert between tags and in attributes in quotes.
std::string escape_markup(std::string_view text);

}  // namespace tessera
