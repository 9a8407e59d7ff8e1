#pragma once
// A recipe as a tree of sections, bound to option structs through base/visit.h.
//
//   Section recipe = load_recipe("recipes/digits.toml", {"optimizer.lr=3e-4", "model.depth=12"});
//   recipe.bind_part(run);                      // seed, total, log, … : the recipe's own fields
//   Section model = recipe.section("model");    // { name = "vit", width = 96 }
//   const std::string name = model.name();      // chooses the component
//   model.bind(vit);                            // its options; any other key is an error here
//   recipe.finish();                            // whatever nobody asked for is an error
//   recipe.dump();                              // the resolved recipe
//
// Values. A field takes the TOML value of its type. A whole number also serves a `double`, and any number serves a text field
// (so that the schedule `lr = 1e-3` needs no quotes); nothing else is converted. Where a section is expected, plain text is
// shorthand for its main key, which is the first one asked for: `name` where a component is chosen (`model = "vit"`), else the
// first field of the struct bound (`data = "folder(x)"` for `source`). Unset std::optional fields are left out of the resolved
// recipe.
//
// Overrides are `key=value` with dotted keys, applied in order after the file. The value is read as TOML; what is not TOML is
// text
// (`total=12 epochs`). An override replaces the whole value at its key; a deeper key reaches into tables, inline or not, and
// makes those that are missing (`eval.test.type=classification`).
//
// Errors are usage Errors whose `where` is `recipes/x.toml:14` or `override key=value`. Not thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/visit.h"

namespace tessera::config {

struct Node;  // a value of the tree; see config/node.h

// One number, text that says how to find numbers, or a list of them.
using NumbersOrText = std::variant<double, std::string, std::vector<double>>;

// A field of an options struct: every type that base/visit.h allows, nested structs aside.
using Field = std::variant<bool*, int64_t*, double*, std::string*, std::vector<bool>*, std::vector<int64_t>*,
                           std::vector<double>*, std::vector<std::string>*, std::optional<bool>*, std::optional<int64_t>*,
                           std::optional<double>*, std::optional<std::string>*, std::optional<std::vector<bool>>*,
                           std::optional<std::vector<int64_t>>*, std::optional<std::vector<double>>*,
                           std::optional<std::vector<std::string>>*, NumbersOrText*, std::optional<NumbersOrText>*>;

// A table of the recipe. A cheap handle: copies share the tree, which lives as long as any of them.
class Section {
 public:
  // Fills the fields of `options` (a struct with visit()); those that the recipe doesn't set keep their value, which becomes
  // the resolved one. A key that is neither a field nor already asked for is an error that names the nearest.
  template <class T>
  void bind(T& options) {
    bind_part(options);
    reject_unknown();
  }
  // The same, but leaves other keys to whoever asks for them later; finish() catches the rest.
  template <class T>
  void bind_part(T& options) {
    static_assert(Visitable<T>, "an options struct needs: template <class Visitor> void visit(Visitor&& field)");
    options.visit([this](const char* key, auto& value, FieldHelp help) {
      using Value = std::remove_reference_t<decltype(value)>;
      if constexpr (Visitable<Value>) {
        section(key).bind(value);
      } else {
        bind_field(key, Field(&value), help.text);
      }
    });
  }
  void bind_field(std::string_view key, Field field, std::string_view help);

  // The component's name: the key `name`, or the whole value where it is plain text. Required unless there is a fallback.
  std::string name(const std::optional<std::string>& fallback = {});
  // The same for another key (`type` of an evaluator).
  std::string text(std::string_view key, const std::optional<std::string>& fallback = {});

  // The table at `key`; an empty one, with every default, where the recipe has none.
  Section section(std::string_view key);
  // True where the recipe or an override sets `key`.
  bool has(std::string_view key) const;
  // The keys that the recipe sets, in its order: the NAMEs of [eval.NAME].
  std::vector<std::string> keys() const;

  // Calls visit(path, where, text) for every text of the recipe below this section that stands at a key `key`, at any depth. It may
  // change the text. Nothing counts as asked for.
  void visit_texts(std::string_view key,
                   const std::function<void(const std::string& path, const std::string& where, std::string& text)>& visit);

  // Dotted path: "model", "eval.val.data"; empty for the recipe itself. path("lr") is "optimizer.lr".
  std::string path(std::string_view key = {}) const;
  // Where `key` was set: "recipes/x.toml:14", "override model.patch=5", or the section's own place when it has its default.
  std::string where(std::string_view key = {}) const;
  // path and where in one, for the `where` of messages that don't name the key: "`data.pp`, recipes/x.toml:8".
  std::string place(std::string_view key) const;

  // A usage Error about a value: fail("patch", "must divide the image size 18, and is 5", "use 3, 6 or 9")
  // reads "`model.patch` must divide the image size 18, and is 5".
  [[noreturn]] void fail(std::string_view key, std::string_view message, std::string_view help = {}) const;
  // A usage Error that a required key is missing; names a key that may have been meant.
  [[noreturn]] void fail_missing(std::string_view key, std::string_view help = {}) const;

  // A usage Error unless the value of `key` lies in [least, most].
  void check_range(std::string_view key, int64_t value, int64_t least, int64_t most) const;

  // Throws the error of the first key, in the order of the recipe, that nobody asked for, anywhere in the tree.
  void finish() const;
  // This section as TOML, in the order of binding, defaults included: parses back to the same values.
  std::string dump() const;

 private:
  friend Section parse_recipe(std::string_view text, std::string_view file, const std::vector<std::string>& overrides);
  Section(std::shared_ptr<Node> root, Node* node) : root_(std::move(root)), node_(node) {}
  void reject_unknown() const;
  Node* ask(std::string_view key);

  std::shared_ptr<Node> root_;
  Node* node_;
};

// `file` is only a name for messages.
Section parse_recipe(std::string_view text, std::string_view file = "recipe", const std::vector<std::string>& overrides = {});
Section load_recipe(const std::string& path, const std::vector<std::string>& overrides = {});

// A key whose value differs between two recipes; values as TOML, empty where the key is absent.
struct Difference {
  std::string key, left, right;
};
// Compares two recipes given as TOML text, by key; the order of keys doesn't matter. Sorted by key.
std::vector<Difference> difference(std::string_view left, std::string_view right);

// A line of `tessera help KEY`.
struct KeyDoc {
  std::string key;            // dotted
  std::string type;           // "a whole number", "a list of numbers", …
  std::string default_value;  // as TOML; empty for an unset optional
  std::string help;
  bool may_change = false;  // a run may go on with another value
};
KeyDoc describe_field(std::string key, Field field, std::string_view help);

// What `options` offers, in the struct's order; `prefix` is the section's path.
template <class T>
std::vector<KeyDoc> describe(T options = {}, const std::string& prefix = {}) {
  static_assert(Visitable<T>, "an options struct needs: template <class Visitor> void visit(Visitor&& field)");
  std::vector<KeyDoc> docs;
  options.visit([&](const char* name, auto& value, FieldHelp help) {
    using Value = std::remove_reference_t<decltype(value)>;
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    const size_t first = docs.size();
    if constexpr (Visitable<Value>) {
      for (KeyDoc& doc : describe(value, key)) docs.push_back(std::move(doc));
      for (size_t i = first; i < docs.size(); ++i) docs[i].may_change |= help.may_change;
    } else {
      docs.push_back(describe_field(key, Field(&value), help.text));
      docs.back().may_change = help.may_change;
    }
  });
  return docs;
}

// The keys whose values differ from the defaults, a TOML line each.
template <class T>
std::string changed_keys(const T& options) {
  const std::vector<KeyDoc> given = describe(options), usual = describe<T>();
  std::string text;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].default_value != usual[i].default_value) text += given[i].key + " = " + given[i].default_value + "\n";
  }
  return text;
}

// describe() as a function of the path alone, for tables of components.
template <class T>
std::vector<KeyDoc> keys_of(const std::string& prefix) {
  return describe<T>({}, prefix);
}

}  // namespace tessera::config
