#pragma once
// Command lines of other trainers, read as Python's argparse reads them, and tables that say how each argument is translated.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::translate {

// How an argument is translated.
enum class Kind {
  kExact,         // the recipe does the same
  kApproximated,  // the recipe does something close to it; `how` says what
  kIgnored,       // of the other trainer's own machinery, or without an effect on the result
  kMissing,       // an error unless it has its default
};

enum class Takes { kNothing, kText, kOptionalText, kInteger, kNumber, kNumbers, kTexts };

struct Argument {
  const char* names;  // "--batch-size -b": the first is what others call it, and its key in YAML. "data": a word without a name
  Takes takes;
  Kind kind;
  const char* fallback;        // when it is not given; numbers separated by blanks; "": none
  const char* how;             // what becomes of it
  const char* none = nullptr;  // its value where YAML says null and that is not its fallback
};

// An argument's values, by its name without dashes and with _ for -: "batch_size".
class Arguments {
 public:
  explicit Arguments(std::span<const Argument> table) : table_(table) {}

  // Reads words as argparse does: --name VALUE, --name=VALUE, -b VALUE, -b8, and unique beginnings of long names. What is no
  // argument's value is returned. An unknown argument is a usage Error that names the nearest.
  std::vector<std::string> parse(const std::vector<std::string>& words);
  // As if given, but what is given already stays. `key` may have - or _. No values are YAML's null: as if not given, where the
  // argument has no other meaning for it. One that is empty is text alone.
  void set_default(std::string_view key, const std::vector<std::string>& values, const std::string& where);

  // Whether it has another value than its fallback.
  bool given(std::string_view name) const;
  std::string text(std::string_view name) const;
  bool flag(std::string_view name) const;
  double number(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  std::optional<double> optional_number(std::string_view name) const;
  std::vector<double> numbers(std::string_view name) const;
  std::vector<std::string> words(std::string_view name) const;

  // The arguments that have another value than their fallback, in the table's order.
  std::vector<const Argument*> all_given() const;
  // A usage Error for the first of kind kMissing among them.
  void refuse_missing() const;

 private:
  struct Value {
    std::string name;
    std::vector<std::string> words;
  };
  const Argument& find(const std::string& word, const std::string& where) const;
  const Argument& find_key(std::string_view key, const std::string& where) const;
  const Argument& entry(std::string_view name) const;
  const Value* value(std::string_view name) const;
  void set(const Argument& argument, std::vector<std::string> words, const std::string& where);

  std::span<const Argument> table_;
  std::vector<Value> values_;
};

// "--batch-size"
std::string long_name(const Argument& argument);
// The arguments of each kind, as a Markdown table each: for docs/from/timm.md and `--list`.
std::string argument_lists(std::span<const Argument> table);

// Builds the text of a recipe in order: comments, sections, and key = value lines.
class RecipeText {
 public:
  void comment(const std::string& line) { text_ += "# " + line + "\n"; }
  void section(const std::string& name) { text_ += "\n[" + name + "]\n"; }
  void raw(const std::string& key, const std::string& value) { text_ += key + " = " + value + "\n"; }
  void lines(const std::string& text) { text_ += text; }  // keys and values that are TOML already
  void string(const std::string& key, const std::string& value) { raw(key, quoted(value)); }
  void number(const std::string& key, double value);
  void boolean(const std::string& key, bool value) { raw(key, value ? "true" : "false"); }
  const std::string& text() const { return text_; }
  static std::string quoted(const std::string& value);  // as TOML's basic string

 private:
  std::string text_;
};

// A number as a recipe writes it: at most ten digits, "300", "0.004", "1e-05".
std::string number_text(double value);
std::string numbers_text(const std::vector<double>& values);  // "[0.08, 1]"

// What a command line has become.
struct Translation {
  std::string recipe;                  // TOML
  std::string name;                    // of the recipe, for its run's directory
  std::string workdir;                 // empty: the usual one
  std::vector<std::string> notes;      // what to tell
  std::vector<std::string> overrides;  // KEY=VALUE words, settings of the recipe
};

// The lines of comment that a made recipe begins with.
std::string leading_comments(std::string_view recipe);

// Whether a word is KEY=VALUE, for the recipe.
bool is_setting(const std::string& word);
// A value in a call of a recipe, in quotes where it needs them: `folder('a, b')`.
std::string call_value(const std::string& text);
// Adds notes: which of the given arguments are approximated or ignored.
void tell_of(const Arguments& arguments, std::vector<std::string>& notes);

}  // namespace tessera::translate
