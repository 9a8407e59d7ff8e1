#include "config/section.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "config/node.h"
#include "config/other_words.h"

namespace tessera::config {
namespace {

// What a field of each type is called, in the singular and in a list.
template <class T>
constexpr std::pair<std::string_view, std::string_view> kTypeName;
template <>
constexpr std::pair<std::string_view, std::string_view> kTypeName<bool>{"true or false", "true or false"};
template <>
constexpr std::pair<std::string_view, std::string_view> kTypeName<int64_t>{"a whole number", "whole numbers"};
template <>
constexpr std::pair<std::string_view, std::string_view> kTypeName<double>{"a number", "numbers"};
template <>
constexpr std::pair<std::string_view, std::string_view> kTypeName<std::string>{"text", "texts"};

template <class T>
struct Traits {
  static std::string type() { return std::string(kTypeName<T>.first); }
  static bool read(const Node& node, T& out) {
    const T* value = std::get_if<T>(&node.value);
    if (value != nullptr) out = *value;
    return value != nullptr;
  }
  static void write(const T& value, Node& node) { node.value = value; }
};

template <>
bool Traits<double>::read(const Node& node, double& out) {
  if (const auto* integer = std::get_if<int64_t>(&node.value)) return out = static_cast<double>(*integer), true;
  const auto* number = std::get_if<double>(&node.value);
  if (number != nullptr) out = *number;
  return number != nullptr;
}

// Numbers are expressions of the name(args) grammar too, so a text field takes them.
template <>
bool Traits<std::string>::read(const Node& node, std::string& out) {
  if (const auto* text = std::get_if<std::string>(&node.value)) return out = *text, true;
  if (const auto* integer = std::get_if<int64_t>(&node.value)) return out = std::to_string(*integer), true;
  if (const auto* number = std::get_if<double>(&node.value)) return out = fmt::format("{}", *number), true;
  return false;
}

template <class T>
struct Traits<std::vector<T>> {
  static std::string type() { return fmt::format("a list of {}", kTypeName<T>.second); }
  static bool read(const Node& node, std::vector<T>& out) {
    const auto* list = std::get_if<Node::List>(&node.value);
    if (list == nullptr) return false;
    std::vector<T> values;
    for (const auto& item : list->items) {
      T value{};
      if (!Traits<T>::read(*item, value)) return false;
      values.push_back(std::move(value));
    }
    out = std::move(values);
    return true;
  }
  static void write(const std::vector<T>& values, Node& node) {
    Node::List list;
    for (const T& value : values) {
      list.items.push_back(std::make_unique<Node>());
      Traits<T>::write(value, *list.items.back());
    }
    node.value = std::move(list);
  }
};

template <>
struct Traits<NumbersOrText> {
  static std::string type() { return "a number, a list of numbers or text"; }
  static bool read(const Node& node, NumbersOrText& out) {
    return read_as<double>(node, out) || read_as<std::string>(node, out) || read_as<std::vector<double>>(node, out);
  }
  static void write(const NumbersOrText& value, Node& node) {
    std::visit([&](const auto& own) { Traits<std::decay_t<decltype(own)>>::write(own, node); }, value);
  }

 private:
  template <class T>
  static bool read_as(const Node& node, NumbersOrText& out) {
    T value{};
    if (!Traits<T>::read(node, value)) return false;
    out = std::move(value);
    return true;
  }
};

template <class T>
struct Traits<std::optional<T>> {
  static std::string type() { return Traits<T>::type(); }
  static bool read(const Node& node, std::optional<T>& out) {
    T value{};
    if (!Traits<T>::read(node, value)) return false;
    out = std::move(value);
    return true;
  }
  static void write(const std::optional<T>& value, Node& node) { Traits<T>::write(*value, node); }
};

template <class T>
constexpr bool is_unset(const T&) {
  return false;
}
template <class T>
constexpr bool is_unset(const std::optional<T>& value) {
  return !value.has_value();
}

// A wrong type: what was expected, what was found, and what the key is for.
Error type_error(const Node& node, const std::string& expected, std::string_view help) {
  if (node.main) {  // of a section whose main key takes no text
    const std::string section = node.parent->path(), other = other_help(node.parent->key);
    return usage_error(fmt::format("`{}` must be a table, found {}", section, found_text(node)), node.location(),
                       other.empty() ? "its keys: tessera help " + section : other);
  }
  std::string advice(help);
  if (const auto* number = std::get_if<double>(&node.value); number != nullptr && expected == kTypeName<int64_t>.first) {
    if (*number == std::floor(*number) && std::abs(*number) < 1e15) {
      advice = fmt::format("write {}", static_cast<int64_t>(*number)) + (advice.empty() ? "" : "; " + advice);
    }
  }
  if (const auto* text = std::get_if<std::string>(&node.value); text && expected == Traits<std::vector<std::string>>::type())
    advice = (*text == "none" || text->empty() ? "write []" : fmt::format("write [\"{}\"]", *text)) +
             (advice.empty() ? "" : "; " + advice);
  return usage_error(fmt::format("`{}` must be {}, found {}", node.path(), expected, found_text(node)), node.location(),
                     advice);
}

// The first leaf of a subtree that nobody asked for: messages name it rather than the table around it.
const Node* first_leaf(const Node* node) {
  while (node->table() != nullptr && !node->table()->items.empty()) node = node->table()->items[0].get();
  return node;
}

// Follows the path of `node` from the root, replacing each key that its section doesn't know by the one that was meant; stops
// where there is none. Returns "" when the first unknown key already has no likely meaning.
std::string meant_path(const Node& node) {
  std::vector<const Node*> chain;
  for (const Node* n = &node; n->parent != nullptr; n = n->parent) chain.insert(chain.begin(), n);
  const Node* known = chain.empty() ? &node : chain[0]->parent;
  std::string path;
  for (const Node* step : chain) {
    if (known == nullptr || known->table() == nullptr) break;
    std::string key = step->key;
    if (known != step->parent || step->rank < 0) {
      const bool same = std::find(known->known.begin(), known->known.end(), key) != known->known.end();
      if (!same) key = suggest_key(key, known->known);
    }
    if (key.empty()) break;
    path += (path.empty() ? "" : ".") + key;
    known = known->find(key);
  }
  return path;
}

// Where a key that stands at the top of a recipe belongs: below the first section, nearest to the root, that has one of the name.
std::string meant_below(const Node& root, const std::string& key) {
  std::vector<const Node*> level{&root};
  while (!level.empty()) {
    std::vector<const Node*> next;
    for (const Node* node : level) {
      for (const std::string& name : node->known) {
        const Node* child = node->find(name);
        if (child == nullptr || child->table() == nullptr) continue;
        if (const std::string found = same_key(key, child->known); !found.empty()) return child->path() + "." + found;
        next.push_back(child);
      }
    }
    level = std::move(next);
  }
  return "";
}

Error unknown_key(const Node& node) {
  const Node& leaf = *first_leaf(&node);
  const std::string path = leaf.path(), section = node.parent->path();
  const std::string other = other_help(leaf.key);
  std::string meant = meant_path(leaf);
  // A word of another trainer's is no slip of the keyboard: logger is not log.
  if (!other.empty() && same_key(leaf.key, leaf.parent->known).empty()) meant.clear();
  if (meant.empty() && node.parent->parent == nullptr) {  // the section may be another trainer's: trainer.max_epochs
    meant = same_key(leaf.key, node.parent->known);
    if (meant.empty()) meant = meant_below(*node.parent, leaf.key);
  }
  std::string help;
  if (!meant.empty() && meant != section && !path.starts_with(meant + ".")) {
    const std::string example = example_of(leaf.key, meant);
    help = fmt::format("did you mean `{}`{}?  ", meant, example.empty() ? "" : fmt::format(", as {}", example));
  } else if (!other.empty()) {
    return usage_error(fmt::format("unknown key `{}`", path), leaf.location(), other);
  } else if (!node.parent->known.empty()) {
    help = fmt::format("known {}: {}  ", section.empty() ? "keys" : fmt::format("keys of `{}`", section),
                       join(node.parent->known, ", "));
  }
  const std::string topic = split(meant.empty() ? section : meant, '.')[0];
  help += topic.empty() ? "All keys: tessera help" : fmt::format("All keys: tessera help {}", topic);
  return usage_error(fmt::format("unknown key `{}`", path), leaf.location(), help);
}

void check_all_asked(const Node& node) {
  for (const auto& item : node.table()->items) {
    if (item->rank < 0) throw unknown_key(*item);
    if (item->table() != nullptr) check_all_asked(*item);
  }
}

// Ranks follow the order in which keys were asked for.
void mark(Node& node) {
  const std::vector<std::string>& known = node.parent->known;
  node.rank = static_cast<int>(std::find(known.begin(), known.end(), node.key) - known.begin());
}

// Leaves by dotted key, for comparison.
void flatten(const Node& node, std::map<std::string, std::string>& out) {
  if (node.table() == nullptr || (node.table()->items.empty() && node.parent != nullptr)) {
    out[node.path()] = value_text(node);
    return;
  }
  for (const auto& item : node.table()->items) flatten(*item, out);
}

}  // namespace

// Notes that somebody asked for `key`; its node, or nullptr. The first key asked for takes text that stands for the section.
Node* Section::ask(std::string_view key) {
  if (std::find(node_->known.begin(), node_->known.end(), key) == node_->known.end()) node_->known.emplace_back(key);
  Node* node = node_->find(key);
  if (Node* main = node_->find(""); main != nullptr) {
    if (node == nullptr) {
      main->key = key;
      node = main;
    } else {
      std::erase_if(node_->table()->items, [main](const auto& item) { return item.get() == main; });
    }
  }
  return node;
}

void Section::bind_field(std::string_view key, Field field, std::string_view help) {
  Node* node = ask(key);
  std::visit(
      [&](auto* value) {
        using T = std::remove_pointer_t<decltype(value)>;
        if (node == nullptr) {
          if (is_unset(*value)) return;
          node = node_->add(key, {}, false);
          Traits<T>::write(*value, *node);
        } else if (!Traits<T>::read(*node, *value)) {
          throw type_error(*node, Traits<T>::type(), help);
        } else {
          Traits<T>::write(*value, *node);  // 1 for a number becomes 1.0: the resolved recipe shows what was bound
        }
        mark(*node);
      },
      field);
}

std::string Section::text(std::string_view key, const std::optional<std::string>& fallback) {
  std::string value = fallback.value_or("");
  if (!fallback && node_->find(key) == nullptr && node_->find("") == nullptr) {
    ask(key);
    fail_missing(key);
  }
  bind_field(key, &value, {});
  return value;
}

std::string Section::name(const std::optional<std::string>& fallback) { return text("name", fallback); }

Section Section::section(std::string_view key) {
  Node* node = ask(key);
  if (node == nullptr) {
    node = node_->add(key, {}, false);
    node->value = Node::Table{};
  }
  if (!node->open_table()) throw type_error(*node, "a table", fmt::format("write {} = {{ … }}", key));
  mark(*node);
  return Section(root_, node);
}

bool Section::has(std::string_view key) const {
  const Node* node = node_->find(key);
  return node != nullptr && node->given;
}

std::vector<std::string> Section::keys() const {
  if (const Node* text = node_->shorthand()) {
    throw usage_error(fmt::format("`{}` must be a table, found the text {}", node_->path(), value_text(*text)),
                      node_->location());
  }
  std::vector<std::string> keys;
  for (const auto& item : node_->table()->items) {
    if (item->given) keys.push_back(item->key);
  }
  return keys;
}

std::string Section::path(std::string_view key) const {
  const std::string own = node_->path();
  return own.empty() || key.empty() ? own + std::string(key) : fmt::format("{}.{}", own, key);
}

std::string Section::where(std::string_view key) const {
  const Node* node = node_->find(key);
  return node != nullptr ? node->location() : node_->location();
}

std::string Section::place(std::string_view key) const { return fmt::format("`{}`, {}", path(key), where(key)); }

void Section::fail(std::string_view key, std::string_view message, std::string_view help) const {
  throw usage_error(fmt::format("`{}` {}", path(key), message), where(key), std::string(help));
}

void Section::fail_missing(std::string_view key, std::string_view help) const {
  std::string advice(help);
  for (const auto& item : node_->table()->items) {
    if (item->main && item->where.starts_with("override ")) {
      advice += fmt::format("{}this override takes the place of all of `{}`; {}={} changes that key alone",
                            advice.empty() ? "" : "; ", node_->path(), item->path(), value_text(*item));
      break;
    }
    if (item->rank < 0 && suggest_key(item->key, {std::string(key)}) == key) {
      advice = fmt::format("is `{}` ({}) meant?{}{}", item->path(), item->location(), advice.empty() ? "" : "  ", advice);
      break;
    }
  }
  throw usage_error(fmt::format("the key `{}` is missing", path(key)), where(), advice);
}

void Section::reject_unknown() const {
  for (const auto& item : node_->table()->items) {
    if (item->rank < 0) throw unknown_key(*item);
  }
}

void Section::check_range(std::string_view key, int64_t value, int64_t least, int64_t most) const {
  if (value < least || value > most) fail(key, fmt::format("must be {} to {}, and is {}", least, most, value));
}

void Section::visit_texts(std::string_view key,
                          const std::function<void(const std::string&, const std::string&, std::string&)>& visit) {
  const std::function<void(Node&)> walk = [&](Node& node) {
    if (auto* text = std::get_if<std::string>(&node.value); text && node.key == key) visit(node.path(), node.location(), *text);
    if (node.table() == nullptr) return;
    for (const auto& item : node.table()->items) walk(*item);
  };
  walk(*node_);
}

void Section::finish() const { check_all_asked(*node_); }

std::string Section::dump() const { return table_text(*node_); }

Section parse_recipe(std::string_view text, std::string_view file, const std::vector<std::string>& overrides) {
  if (text.size() > kMaxRecipeBytes) {
    throw usage_error(
        fmt::format("`{}` is no recipe: it has more than {}", file, human_bytes(static_cast<double>(kMaxRecipeBytes))), {},
        "a recipe is a TOML file, for example recipes/digits.toml");
  }
  std::shared_ptr<Node> root = parse_toml(text, file);
  for (const std::string& item : overrides) apply_override(*root, item);
  return Section(root, root.get());
}

Section load_recipe(const std::string& path, const std::vector<std::string>& overrides) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status there = fs::status(path, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there)) {
    throw usage_error(fmt::format("the recipe `{}` is a pipe or a device, not a regular file", path), {},
                      "write the recipe into a file, and name that");
  }
  if (const fs::path own = fs::path(path) / "recipe.toml"; fs::is_regular_file(own, ignored)) {
    throw usage_error(fmt::format("`{}` is a directory of a run, and no recipe", path), {},
                      fmt::format("its recipe is {}; a command that takes trained weights has them by --from {}", own.string(),
                                  fs::path(path).string()));
  }
  if (!fs::is_regular_file(there)) {
    std::vector<std::string> names;
    const bool directory = fs::is_directory(there);
    const fs::path beside = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path("recipes");
    const fs::path folder = directory ? fs::path(path) : beside;
    std::vector<std::string> stems;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      // Not a link to a file that is gone, nor a directory: these are no recipes either.
      if (entry.path().extension() == ".toml" && entry.is_regular_file(ignored)) names.push_back(entry.path().string());
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) stems.push_back(fs::path(name).stem().string());
    if (directory) {
      throw usage_error(fmt::format("`{}` is a directory, and no recipe", path), {},
                        names.empty() ? fmt::format("a recipe is a TOML file, for example recipes/digits.toml; images are its "
                                                    "data: data.source=\"folder({})\"",
                                                    path)
                                      : "it has " + one_line(join(names, ", ")));
    }
    std::string help = names.empty() ? "a recipe is a TOML file, for example recipes/digits.toml" : suggest_name(path, names);
    // `digits` and `digits.toml` for recipes/digits.toml.
    if (const auto near = nearest_name(fs::path(path).stem().string(), stems)) {
      const auto index = std::ranges::find(stems, *near) - stems.begin();
      help = fmt::format("did you mean `{}`?", one_line(names[static_cast<size_t>(index)]));
    }
    if (path.ends_with(')') && path.find('(') != std::string::npos)
      help = fmt::format("it reads as images: a recipe has data.source = '{}'", one_line(path));
    if (fs::is_regular_file(path + ".toml", ignored)) help = fmt::format("did you mean `{}.toml`?", path);
    throw usage_error(fmt::format("there is no recipe file `{}`", path), {}, help);
  }
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (std::array<char, 4096> part{}; file && text.size() <= kMaxRecipeBytes;) {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    throw usage_error(fmt::format("the recipe file `{}` can't be read", path), {}, "check its permissions");
  }
  if (text.size() <= kMaxRecipeBytes && text.find('\0') != std::string::npos) {  // an image, weights, an archive
    throw usage_error(fmt::format("`{}` is no recipe: it has bytes that no text has", path), {},
                      "a recipe is a TOML file in UTF-8, for example recipes/digits.toml");
  }
  return parse_recipe(text, path, overrides);
}

std::vector<Difference> difference(std::string_view left, std::string_view right) {
  std::map<std::string, std::string> a, b;
  flatten(*parse_toml(left, "left recipe"), a);
  flatten(*parse_toml(right, "right recipe"), b);
  std::vector<Difference> differences;
  for (const auto& [key, value] : a) {
    const auto other = b.find(key);
    if (other == b.end() || other->second != value) {
      differences.push_back({key, value, other == b.end() ? std::string() : other->second});
    }
  }
  for (const auto& [key, value] : b) {
    if (!a.contains(key)) differences.push_back({key, {}, value});
  }
  std::sort(differences.begin(), differences.end(), [](const auto& x, const auto& y) { return x.key < y.key; });
  return differences;
}

KeyDoc describe_field(std::string key, Field field, std::string_view help) {
  KeyDoc doc{std::move(key), {}, {}, std::string(help)};
  std::visit(
      [&](const auto* value) {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(value)>>;
        doc.type = Traits<T>::type();
        if (is_unset(*value)) return;
        Node node;
        Traits<T>::write(*value, node);
        doc.default_value = value_text(node);
      },
      field);
  return doc;
}

}  // namespace tessera::config
