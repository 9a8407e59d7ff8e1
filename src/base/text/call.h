#pragma once
// The one `name(args)` grammar of recipes: pp chains, sources, schedules, clipping, mesh and sharding rules.
//
//   call  := name [ '(' [ arg { ',' arg } ] ')' ]
//   arg   := [ name '=' ] value
//   value := anything up to the next ',' or ')' at the same depth of (), [], {} and outside quotes; spaces around it dropped.
//   chain := call { '|' call }
//
// A value stays text until it is read as a number, a word, a list or another call, so that `cosine(1e-3, warmup=50 steps)` and
// `folder(data/digits/train)` need no quotes. Quotes ('…' or "…") keep commas and parentheses inside a value.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct CallArg {
  std::string key;    // empty for a positional argument
  std::string value;  // trimmed, outer quotes removed
};

struct Call {
  std::string name;
  std::vector<CallArg> args;
  std::string text;  // as written, for messages
};

// Both throw a usage Error that quotes the text and marks the place. `where` is the recipe key.
Call parse_call(std::string_view text, std::string_view where = {});
std::vector<Call> parse_chain(std::string_view text, std::string_view where = {});

// Text of a value -> number, bool; nullopt when it is not one. Numbers may be written 1e-3, 0.5, 3/4, 224.
std::optional<double> parse_number(std::string_view text);
std::optional<bool> parse_bool(std::string_view text);

// Reads a call's arguments by position or name, each once; finish() rejects what was not read, naming the nearest known name.
//   CallReader r(call, "data.pp");
//   const int64_t size = r.integer("size");
//   const double prob = r.number("prob", 0.5);
//   r.finish();
class CallReader {
 public:
  CallReader(const Call& call, std::string_view where = {});

  // Required when no default is given. Each call to one of these reads the next positional argument, or the argument so named.
  std::string text(std::string_view name, std::optional<std::string> fallback = {});
  double number(std::string_view name, std::optional<double> fallback = {});
  int64_t integer(std::string_view name, std::optional<int64_t> fallback = {});
  bool boolean(std::string_view name, std::optional<bool> fallback = {});
  // "[1, 2]", "(1, 2)" or a single number.
  std::vector<double> numbers(std::string_view name, std::optional<std::vector<double>> fallback = {});
  // Every positional argument from the current one on (for `step(0.1, 30, 60, 80)`).
  std::vector<std::string> rest_texts();
  bool has(std::string_view name) const;
  void finish();
  // What finish() says of an argument that is unknown here, where that is more than a near name; empty: nothing.
  void explain_unknown(std::function<std::string(const std::string& name)> explain) { explain_ = std::move(explain); }

  // A usage Error about this call: "`resize(18)`: …".
  [[noreturn]] void fail(const std::string& message, const std::string& help = {}) const;

 private:
  const CallArg* find(std::string_view name);
  const Call& call_;
  std::string where_;
  std::vector<bool> used_;
  std::vector<std::string> known_;
  std::function<std::string(const std::string&)> explain_;
  size_t position_ = 0;  // how many parameters were asked for: the index of the next positional argument
};

}  // namespace tessera
