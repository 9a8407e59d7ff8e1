#pragma once
// Small text helpers of messages and tables.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// The candidate nearest to `word` by edit distance, when near enough to be a likely slip (at most a third of its length, and at
// least one letter); otherwise nothing.
std::optional<std::string> nearest_name(std::string_view word, const std::vector<std::string>& candidates);

// "did you mean `x`?" when there is a near candidate, else "known: a, b, c".
std::string suggest_name(std::string_view word, const std::vector<std::string>& candidates);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
// With the letters A to Z small.
std::string lower(std::string text);
std::string csv_text(std::string_view text);  // a cell of a CSV file, in quotes where it needs them (RFC 4180)

std::string human_bytes(double bytes);       // "1.4 GiB"
std::string human_count(int64_t count);      // "22,050,664"
std::string human_duration(double seconds);  // "3.2 s", "5:12", "2:03:10"

}  // namespace tessera
