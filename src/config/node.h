#pragma once
// The values behind Section: a tree that remembers where each was written and who asked for it. Internal to config.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera::config {

inline constexpr size_t kMaxRecipeBytes = size_t{4} << 20;  // a thousand times the longest here

struct Node {
  struct List {
    std::vector<std::unique_ptr<Node>> items;
  };
  // Children in the order of the recipe. The key "" holds text written in place of the table, until its main key is known.
  struct Table {
    std::vector<std::unique_ptr<Node>> items;
  };

  std::string key;
  std::variant<bool, int64_t, double, std::string, List, Table> value;
  Node* parent = nullptr;
  std::string where;               // empty for a default
  bool given = true;               // false: a default, or a section made to hold defaults
  bool main = false;               // text that stands for its section (open_table)
  int rank = -1;                   // order of being asked for among its siblings; -1: not yet
  std::vector<std::string> known;  // keys asked for, of a table

  Table* table() { return std::get_if<Table>(&value); }
  const Table* table() const { return std::get_if<Table>(&value); }
  Node* find(std::string_view child) const;  // of a table; nullptr when absent
  Node* add(std::string_view child, std::string location, bool is_given);
  // Turns text into a table whose main key is still open; a table stays. False for other values.
  bool open_table();
  // Text that stands for the whole section, or nullptr.
  const Node* shorthand() const;
  std::string path() const;
  // The nearest location: its own, else that of a parent.
  std::string location() const;
};

// TOML text -> tree. Throws a usage Error with file and line.
std::unique_ptr<Node> parse_toml(std::string_view text, std::string_view file);
// Applies `key=value` to the tree.
void apply_override(Node& root, std::string_view text);

// A value on one line, as TOML.
std::string value_text(const Node& node);
// A table as TOML lines; sub-tables get their own [header], named from `node` down.
std::string table_text(const Node& node);
// What a message says of a value: "the text \"fast\"", "the whole number 3", "a table".
std::string found_text(const Node& node);

}  // namespace tessera::config
