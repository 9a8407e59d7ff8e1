#pragma once
// Text of others (names of files and classes, captions, messages of libraries) as a terminal may show it. Escape sequences
// could move the cursor, rewrite what was said before, or make the terminal type; marks that turn the direction of writing make
// a name look like another one.

#include <string>
#include <string_view>

namespace tessera {

// Whether all of it is UTF-8 (RFC 3629).
bool is_utf8(std::string_view text);

// Control characters but line ends and tabs, C1 controls, direction overrides and bytes that are no UTF-8 become \x1b, \u202e,
// \xff. Everything else stays as it is, backslashes too: it is for reading, not for turning back.
std::string printable(std::string_view text);

// The same for a name, which must not look like several lines: line ends and tabs become \n, \r, \t.
std::string one_line(std::string_view name);

// printable() of a message of the program's, whose further lines are indented or its help: others are indented too. They come
// from names, and a line of the program's begins at the margin.
std::string printable_message(std::string_view text);

// For a JSON text: the same characters become \u escapes, so that the values stay what they are. (Strings hold no raw control
// characters below 32 anyway; what is not UTF-8 must have been replaced.)
std::string printable_json(std::string_view json);

}  // namespace tessera
