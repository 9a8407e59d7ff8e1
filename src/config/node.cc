#include "config/node.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "config/toml_nesting.h"

namespace tessera::config {
namespace {

// toml++ keeps keys sorted; the tree keeps them as written.
std::vector<std::pair<const toml::key*, const toml::node*>> in_file_order(const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> items;
  for (const auto& [key, value] : table) items.emplace_back(&key, &value);
  std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
    const auto &x = a.first->source().begin, &y = b.first->source().begin;
    return std::pair(x.line, x.column) < std::pair(y.line, y.column);
  });
  return items;
}

// Fills `out` from `in`. `place` names the file, or is a whole location when `with_line` is false.
void convert(const toml::node& in, const std::string& place, bool with_line, Node& out) {
  const auto location = [&](const toml::source_region& region) {
    return with_line ? fmt::format("{}:{}", place, region.begin.line) : place;
  };
  switch (in.type()) {
    case toml::node_type::boolean: out.value = in.as_boolean()->get(); return;
    case toml::node_type::integer: out.value = in.as_integer()->get(); return;
    case toml::node_type::floating_point: out.value = in.as_floating_point()->get(); return;
    case toml::node_type::string: out.value = in.as_string()->get(); return;
    case toml::node_type::array: {
      Node::List list;
      for (const toml::node& item : *in.as_array()) {
        auto child = std::make_unique<Node>();
        child->parent = &out;
        child->where = location(item.source());
        convert(item, place, with_line, *child);
        list.items.push_back(std::move(child));
      }
      out.value = std::move(list);
      return;
    }
    case toml::node_type::table:
      out.value = Node::Table{};
      for (const auto& [key, value] : in_file_order(*in.as_table())) {
        convert(*value, place, with_line, *out.add(key->str(), location(key->source()), true));
      }
      return;
    default: throw usage_error("a date or time has no use in a recipe", location(in.source()), "write it as text, in quotes");
  }
}

// The value of an override. Text that TOML doesn't know is taken as it is, unless it plainly tries to be TOML.
void parse_value(std::string_view text, const std::string& where, Node& out) {
  const bool tries = !text.empty() && std::string_view("[{\"'").find(text.front()) != std::string_view::npos;
  // A line break or a comment would end the value early.
  const bool plain = text.find_first_of("#\n") != std::string_view::npos;
  out.value = std::string(text);
  if (text.empty() || (plain && !tries)) return;
  const std::string line = "value = " + std::string(text);
  if (find_deep_line(line)) {
    if (!tries) return;
    throw usage_error(fmt::format("the value nests more than {} levels deep", kMaxTomlDepth), where);
  }
  try {
    const toml::table table = toml::parse(line);
    const toml::node* value = table.get("value");
    if (value != nullptr && table.size() == 1 && !value->is_date() && !value->is_time() && !value->is_date_time()) {
      convert(*value, where, false, out);
    }
  } catch (const toml::parse_error& e) {
    if (tries) throw usage_error(fmt::format("`{}` is not a TOML value: {}", text, e.description()), where);
  }
}

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

std::string line_of(std::string_view text, size_t line) {
  const std::vector<std::string> lines = split(text, '\n');
  return line >= 1 && line <= lines.size() ? std::string(trim(lines[line - 1])) : std::string();
}

}  // namespace

Node* Node::find(std::string_view child) const {
  for (const auto& item : std::get<Table>(value).items) {
    if (item->key == child) return item.get();
  }
  return nullptr;
}

Node* Node::add(std::string_view child, std::string location, bool is_given) {
  auto node = std::make_unique<Node>();
  node->key = child;
  node->parent = this;
  node->where = std::move(location);
  node->given = is_given;
  std::get<Table>(value).items.push_back(std::move(node));
  return std::get<Table>(value).items.back().get();
}

bool Node::open_table() {
  if (table() != nullptr) return true;
  if (!std::holds_alternative<std::string>(value)) return false;
  std::string text = std::move(std::get<std::string>(value));
  value = Table{};
  Node* text_node = add("", where, true);
  text_node->value = std::move(text);
  text_node->main = true;
  return true;
}

const Node* Node::shorthand() const {
  return table() != nullptr && table()->items.size() == 1 && table()->items[0]->key.empty() ? table()->items[0].get() : nullptr;
}

std::string Node::path() const {
  if (parent == nullptr) return {};
  const std::string above = parent->path();
  if (above.empty() || key.empty()) return above + key;
  return above + "." + key;
}

std::string Node::location() const { return !where.empty() || parent == nullptr ? where : parent->location(); }

std::unique_ptr<Node> parse_toml(std::string_view text, std::string_view file) {
  auto root = std::make_unique<Node>();
  if (text.size() > kMaxRecipeBytes) {
    throw usage_error(fmt::format("the recipe has {}, more than {}", human_bytes(static_cast<double>(text.size())),
                                  human_bytes(static_cast<double>(kMaxRecipeBytes))),
                      std::string(file));
  }
  if (const auto line = find_deep_line(text)) {
    throw usage_error(fmt::format("the recipe nests more than {} levels deep", kMaxTomlDepth),
                      fmt::format("{}:{}", file, *line));
  }
  try {
    convert(toml::parse(text, file), std::string(file), true, *root);
  } catch (const toml::parse_error& e) {
    const auto line = e.source().begin.line;
    const std::string reads = line_of(text, line);
    // "csv(a.csv, sep=";")": the inner quotes end the outer ones.
    const bool nested = reads.find('(') != std::string::npos && std::ranges::count(reads, '"') > 2;
    const char* help = nested ? "text with quotes in it stands in single ones (source = 'csv(a.csv, sep=\";\")')"
                              : "text stands in quotes (name = \"vit\"), tables in braces ({ every = \"10 epochs\" })";
    throw usage_error(fmt::format("the recipe is not valid TOML: {}", e.description()), fmt::format("{}:{}", file, line),
                      (reads.empty() ? "" : fmt::format("the line reads `{}`; ", reads)) + help);
  }
  root->where = file;
  return root;
}

void apply_override(Node& root, std::string_view text) {
  const std::string where = fmt::format("override {}{}", text.substr(0, 200), text.size() > 200 ? "…" : "");
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    throw usage_error(fmt::format("`{}` is not an override", text), {}, "write key=value, for example optimizer.lr=3e-4");
  }
  const std::vector<std::string> keys = split(trim(text.substr(0, equals)), '.');
  if (keys.size() > kMaxTomlDepth) {
    throw usage_error(fmt::format("the key of the override nests more than {} levels deep", kMaxTomlDepth), where);
  }
  for (const std::string& key : keys) {
    if (!is_bare_key(key)) {
      throw usage_error(fmt::format("`{}` is not a key", trim(text.substr(0, equals))), where,
                        "keys are letters, digits, _ and -, with dots between sections: eval.val.every=\"2 epochs\"");
    }
  }
  Node* node = &root;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!node->open_table()) {
      throw usage_error(fmt::format("`{}` is {}, so it has no key `{}`", node->path(), found_text(*node), keys[i]), where);
    }
    Node* child = node->find(keys[i]);
    if (child == nullptr) {
      child = node->add(keys[i], where, true);
      child->value = Node::Table{};
    }
    node = child;
  }
  node->where = where;
  parse_value(trim(text.substr(equals + 1)), where, *node);
}

namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::string key_text(std::string_view key) { return is_bare_key(key) ? std::string(key) : quote(key); }

// The shortest text that reads back as the same double, and as a TOML float rather than an integer.
std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// As bound, then as written: the resolved recipe doesn't depend on the order of the recipe's lines.
std::vector<const Node*> dump_order(const Node& node) {
  std::vector<const Node*> items;
  for (const auto& item : node.table()->items) items.push_back(item.get());
  std::stable_sort(items.begin(), items.end(), [](const Node* a, const Node* b) {
    return static_cast<unsigned>(a->rank) < static_cast<unsigned>(b->rank);  // -1 (never asked for) comes last
  });
  return items;
}

bool is_section(const Node& node) { return node.table() != nullptr && node.shorthand() == nullptr; }

void print_table(const Node& node, const std::string& header, std::string& out) {
  const std::vector<const Node*> items = dump_order(node);
  const bool has_values = std::any_of(items.begin(), items.end(), [](const Node* item) { return !is_section(*item); });
  if (!header.empty() && (has_values || (items.empty() && node.given))) {
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", header);
  }
  for (const Node* item : items) {
    if (!is_section(*item)) out += fmt::format("{} = {}\n", key_text(item->key), value_text(*item));
  }
  for (const Node* item : items) {
    if (is_section(*item)) print_table(*item, (header.empty() ? "" : header + ".") + key_text(item->key), out);
  }
}

}  // namespace

std::string value_text(const Node& node) {
  if (const auto* boolean = std::get_if<bool>(&node.value)) return *boolean ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&node.value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&node.value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&node.value)) return quote(*text);
  if (const Node* text = node.shorthand()) return value_text(*text);
  std::vector<std::string> parts;
  if (const auto* list = std::get_if<Node::List>(&node.value)) {
    for (const auto& item : list->items) parts.push_back(value_text(*item));
    return "[" + join(parts, ", ") + "]";
  }
  for (const Node* item : dump_order(node)) parts.push_back(key_text(item->key) + " = " + value_text(*item));
  return parts.empty() ? "{}" : "{ " + join(parts, ", ") + " }";
}

std::string table_text(const Node& node) {
  std::string out;
  print_table(node, {}, out);
  return out;
}

std::string found_text(const Node& node) {
  switch (node.value.index()) {
    case 1: return "the whole number " + value_text(node);
    case 2: return "the number " + value_text(node);
    case 3: return "the text " + value_text(node);
    case 4: return "the list " + value_text(node);
    case 5: return node.shorthand() != nullptr ? "the text " + value_text(node) : "a table";
    default: return value_text(node);
  }
}

}  // namespace tessera::config
