#include "base/text/call.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// Calls in calls are read by functions that call themselves.
constexpr size_t kMaxCallDepth = 64;

std::string in_backticks(std::string_view text) {
  constexpr size_t kMax = 500;
  return text.size() <= kMax ? fmt::format("`{}`", text) : fmt::format("`{}…`", text.substr(0, kMax));
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' ||
         c == '/';
}

// Splits at `separator` where the depth of brackets is zero and outside quotes.
std::vector<std::string_view> split_top(std::string_view text, char separator, std::string_view whole, std::string_view where) {
  std::vector<std::string_view> parts;
  std::string closers;
  char quote = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      if (closers.size() == kMaxCallDepth) {
        throw usage_error(fmt::format("more than {} brackets stand in one another in {}", kMaxCallDepth, in_backticks(whole)),
                          std::string(where));
      }
      closers += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (closers.empty() || closers.back() != c) {
        throw usage_error(fmt::format("unbalanced `{}` in {}", c, in_backticks(whole)), std::string(where));
      }
      closers.pop_back();
    } else if (c == separator && closers.empty()) {
      parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  if (quote) throw usage_error(fmt::format("unclosed quote {} in {}", quote, in_backticks(whole)), std::string(where));
  if (!closers.empty())
    throw usage_error(fmt::format("missing `{}` in {}", closers.back(), in_backticks(whole)), std::string(where));
  parts.push_back(text.substr(start));
  return parts;
}

std::string unquote(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    return std::string(text.substr(1, text.size() - 2));
  }
  return std::string(text);
}

CallArg parse_arg(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_name_char(text[n])) ++n;
  size_t eq = n;
  while (eq < text.size() && text[eq] == ' ') ++eq;
  if (n > 0 && eq < text.size() && text[eq] == '=') {
    return {std::string(text.substr(0, n)), unquote(trim(text.substr(eq + 1)))};
  }
  return {"", unquote(text)};
}

}  // namespace

Call parse_call(std::string_view input, std::string_view where) {
  const std::string_view text = trim(input);
  Call call;
  call.text = std::string(text);
  size_t n = 0;
  while (n < text.size() && is_name_char(text[n])) ++n;
  call.name = std::string(text.substr(0, n));
  const std::string_view rest = trim(text.substr(n));
  if (call.name.empty()) {
    throw usage_error(fmt::format("expected a name like `resize(224)`, found {}", in_backticks(text)), std::string(where));
  }
  if (rest.empty()) return call;
  if (rest.front() != '(' || rest.back() != ')') {
    throw usage_error(fmt::format("cannot read {}", in_backticks(text)), std::string(where),
                      "write it as name(argument, name=argument)");
  }
  const std::string_view inside = rest.substr(1, rest.size() - 2);
  for (std::string_view part : split_top(inside, ',', text, where)) {
    part = trim(part);
    if (part.empty()) {
      if (trim(inside).empty()) break;
      throw usage_error(fmt::format("empty argument in {}", in_backticks(text)), std::string(where));
    }
    call.args.push_back(parse_arg(part));
  }
  return call;
}

std::vector<Call> parse_chain(std::string_view text, std::string_view where) {
  std::vector<Call> calls;
  for (const std::string_view part : split_top(text, '|', text, where)) calls.push_back(parse_call(part, where));
  return calls;
}

namespace {

std::optional<double> parse_plain_number(std::string_view text) {
  text = trim(text);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return parse_plain_number(text);
  const auto a = parse_plain_number(text.substr(0, slash)), b = parse_plain_number(text.substr(slash + 1));
  if (!a || !b || *b == 0) return std::nullopt;
  return *a / *b;
}

std::optional<bool> parse_bool(std::string_view text) {
  text = trim(text);
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

CallReader::CallReader(const Call& call, std::string_view where) : call_(call), where_(where), used_(call.args.size(), false) {}

void CallReader::fail(const std::string& message, const std::string& help) const {
  throw usage_error(fmt::format("{}: {}", in_backticks(call_.text), message), where_, help);
}

const CallArg* CallReader::find(std::string_view name) {
  known_.emplace_back(name);
  const size_t position = position_++;
  const CallArg* found = nullptr;
  for (size_t i = 0; i < call_.args.size(); ++i) {
    const CallArg& arg = call_.args[i];
    if (arg.key == name || (arg.key.empty() && i == position)) {
      if (found) fail(fmt::format("`{}` is given twice", name));
      found = &arg;
      used_[i] = true;
    }
  }
  return found;
}

bool CallReader::has(std::string_view name) const {
  for (const CallArg& arg : call_.args) {
    if (arg.key == name) return true;
  }
  return false;
}

std::string CallReader::text(std::string_view name, std::optional<std::string> fallback) {
  if (const CallArg* arg = find(name)) return arg->value;
  if (!fallback) fail(fmt::format("`{}` is missing", name));
  return *fallback;
}

double CallReader::number(std::string_view name, std::optional<double> fallback) {
  if (const CallArg* arg = find(name)) {
    const auto value = parse_number(arg->value);
    if (!value || !std::isfinite(*value)) fail(fmt::format("`{}` must be a number, not `{}`", name, arg->value));
    return *value;
  }
  if (!fallback) fail(fmt::format("`{}` is missing", name));
  return *fallback;
}

int64_t CallReader::integer(std::string_view name, std::optional<int64_t> fallback) {
  const double value = number(name, fallback ? std::optional<double>(static_cast<double>(*fallback)) : std::nullopt);
  if (value != std::floor(value) || std::abs(value) > 9e15)
    fail(fmt::format("`{}` must be a whole number, not {}", name, value));
  return static_cast<int64_t>(value);
}

bool CallReader::boolean(std::string_view name, std::optional<bool> fallback) {
  if (const CallArg* arg = find(name)) {
    const auto value = parse_bool(arg->value);
    if (!value) fail(fmt::format("`{}` must be true or false, not `{}`", name, arg->value));
    return *value;
  }
  if (!fallback) fail(fmt::format("`{}` is missing", name));
  return *fallback;
}

std::vector<double> CallReader::numbers(std::string_view name, std::optional<std::vector<double>> fallback) {
  const CallArg* arg = find(name);
  if (!arg) {
    if (!fallback) fail(fmt::format("`{}` is missing", name));
    return *fallback;
  }
  std::string_view text = arg->value;
  if (text.size() >= 2 && (text.front() == '[' || text.front() == '(')) text = text.substr(1, text.size() - 2);
  std::vector<double> values;
  for (const std::string& part : split(text, ',')) {
    const auto value = parse_number(part);
    if (!value) fail(fmt::format("`{}` must be a list of numbers, not `{}`", name, arg->value));
    values.push_back(*value);
  }
  return values;
}

std::vector<std::string> CallReader::rest_texts() {
  std::vector<std::string> values;
  for (size_t i = 0; i < call_.args.size(); ++i) {
    if (!call_.args[i].key.empty() || used_[i]) continue;
    used_[i] = true;
    values.push_back(call_.args[i].value);
  }
  return values;
}

void CallReader::finish() {
  for (size_t i = 0; i < call_.args.size(); ++i) {
    if (used_[i]) continue;
    const CallArg& arg = call_.args[i];
    if (arg.key.empty()) fail(fmt::format("too many arguments: `{}`", arg.value), "it takes: " + join(known_, ", "));
    const std::string other = explain_ ? explain_(arg.key) : "";
    fail(fmt::format("unknown argument `{}`", arg.key), other.empty() ? suggest_name(arg.key, known_) : other);
  }
}

}  // namespace tessera
