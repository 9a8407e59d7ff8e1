#pragma once
// Several labels of a row of a table: in one field, or in columns that say yes or no.

#include <optional>
#include <string>
#include <vector>

#include "base/text/call.h"
#include "data/formats/json_fields.h"
#include "data/records/labels.h"

namespace tessera::data {

// Where the labels of a table's rows are.
struct TableLabels {
  std::string name;                  // what ListedColumns calls them; empty: there are none
  std::vector<std::string> columns;  // that say yes or no, each a class; empty: they are in the column `name`
  std::string delimiter;             // between labels of that column; empty: one a row

  // The columns that are read.
  std::vector<std::string> read() const { return columns.empty() ? std::vector<std::string>{name} : columns; }
  std::string identity() const;  // of what the index depends on
};

// Reads label_delim=…; without it the delimiter is a space, as fastai's label_delim is used. Throws a usage Error where the
// call has no such column.
std::string read_label_delimiter(CallReader& call, const FieldArguments& arguments);

// A label that is written as a whole number is one; "007" is a name.
JsonField table_label(std::string value);
// Several in one text: whole numbers if all are, else names.
JsonField table_label_list(const std::string& text, const std::string& delimiter);
// The columns whose values say yes: 1 or true. 0, false, -1 (as in CelebA) and nothing say no. Nothing where a value says
// neither; `problem`, where given, then names it.
std::optional<JsonField> columns_that_say_yes(const std::vector<std::string>& columns, const std::vector<std::string>& values,
                                              std::string* problem);

}  // namespace tessera::data
