// csv(pattern): tables whose rows name image files.

#include "data/formats/csv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/records/listed_images.h"
#include "data/records/table_labels.h"
#include "data/source_call.h"
#include "store/servers/buckets.h"
#include "store/url.h"

namespace tessera::data {
namespace {

constexpr const char* kSplitColumn = "split";

// One column's value that rows must have; column empty: all rows are taken.
struct SplitRows {
  std::string column, value;
};

struct CsvTable {
  char separator = ',';
  bool header = true;
  std::vector<std::string> columns;  // names
};

// Tables by path, which the functions of a ListFormat share.
using CsvTables = std::map<std::string, CsvTable>;

// A row of names, labels and texts has far less; taken apart it takes several times its bytes of memory.
constexpr size_t kMaxRow = 1 << 20;
// Why such a row is not read.
std::string too_long(size_t bytes) {
  return fmt::format("it has {}, and rows of up to {} are read", human_bytes(static_cast<double>(bytes)),
                     human_bytes(static_cast<double>(kMaxRow)));
}

// "tab" or the character itself; where nothing is said, what such files usually have.
char read_separator(CallReader& call, const std::string& path) {
  const std::string text = call.text("sep", path.ends_with(".tsv") ? "tab" : ",");
  if (text == "tab" || text == "\\t") return '\t';
  if (text.size() == 1 && text != "\"" && text != "\n" && text != "\r") return text[0];
  call.fail(fmt::format("sep=`{}` is not one character", one_line(text)), "a character in quotes, as sep=\";\", or sep=tab");
}

// "train": of the column `split`; "fold=3": of the column `fold`.
SplitRows read_split_rows(CallReader& call) {
  const std::string text = call.text(kSplitColumn, "");
  if (text.empty()) return {};
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {kSplitColumn, text};
  return {std::string(trim(text.substr(0, equals))), std::string(trim(text.substr(equals + 1)))};
}

// Another separator that would make several columns of a header that is one.
std::string separator_help(const std::string& header) {
  if (header.starts_with('#')) return "take out the lines before the row that names the columns";
  for (const auto& [character, name] :
       {std::pair{';', "\";\""}, {'\t', "tab"}, {'|', "\"|\""}, {',', "\",\""}, {' ', "\" \""}}) {
    if (header.find(character) != std::string::npos) return fmt::format("sep={}", name);
  }
  return "the first row of a table names its columns; header=false where there is none";
}

// A "\r" that is not before a "\n".
bool has_lone_return(std::string_view text) {
  for (size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    if (!text.substr(at + 1).starts_with('\n')) return true;
  }
  return false;
}

CsvTable read_csv_table(const std::string& path, char separator, bool header, const std::string& where) {
  try {
    const auto file = store::files_at(path).open(path);
    const std::string first = first_csv_record(path, *file, separator);
    if (first.empty()) throw data_error(fmt::format("`{}` is empty", one_line(path)));
    if (first.size() > kMaxRow)
      throw data_error(fmt::format("the first row of `{}` is too long: {}", one_line(path), too_long(first.size())));
    auto fields = parse_csv_record(first, separator);
    if (!fields) throw data_error(fmt::format("a quote in the first row of `{}` has no end", one_line(path)));
    // Of a row that is all of the file: a field in quotes may have "\r" in its text.
    constexpr size_t kMarkAndEnd = 5;
    const bool alone = static_cast<size_t>(file->size()) <= first.size() + kMarkAndEnd;
    if (alone && std::ranges::any_of(*fields, [](const std::string& field) { return has_lone_return(field); })) {
      throw data_error(fmt::format("`{}` has line ends of old Macs (CR)", one_line(path)), {},
                       "save it with line ends of Unix or Windows");
    }
    if (fields->size() < 2 && first.find_first_of(";\t|, ") != std::string::npos) {
      throw data_error(fmt::format("`{}` has one column, `{}`", one_line(path), one_line(first.substr(0, 200))), {},
                       separator_help(first));
    }
    CsvTable table{separator, header, std::move(*fields)};
    if (!header) {
      for (size_t i = 0; i < table.columns.size(); ++i) table.columns[i] = std::to_string(i + 1);
    }
    return table;
  } catch (const Error& error) {
    throw data_error(error.message(), where, error.help());
  }
}

std::string image_help(const std::vector<std::string>& columns) {
  for (const std::string& column : columns) {
    for (const std::string_view ending : {".jpg", ".jpeg", ".png", ".webp"}) {
      if (lower(column).ends_with(ending))
        return fmt::format("its first row, with `{}`, names no columns: header=false", one_line(column));
    }
  }
  constexpr std::array kUsual = {"filename", "file", "path", "filepath", "file_name", "image_path", "img", "id", "image_id"};
  const auto usual = std::ranges::find_if(kUsual, [&](const char* name) { return std::ranges::count(columns, name) > 0; });
  const std::string example = usual != kUsual.end() ? *usual : columns.front();
  return fmt::format("it has {}; name the one with the images' files: image={}",
                     one_line(fmt::format("{}", fmt::join(columns, ", "))), one_line(example));
}

// Where there is no header, the first column is the image's file and the second, if there is one, the label.
ListedColumns choose_csv_columns(const FieldArguments& arguments, const CsvTable& table) {
  const auto usual = [&](const char* named, const char* numbered) { return table.header ? named : numbered; };
  ListedColumns columns{arguments.image.value_or(usual("image", "1")), {}, arguments.texts};
  const std::string label = usual("label", "2");
  const bool labelled = arguments.label || std::ranges::count(table.columns, label) > 0;
  if (!arguments.no_label && labelled) columns.label = arguments.label.value_or(label);
  return columns;
}

void expect_columns(const std::string& path, const CsvTable& table, const ListedColumns& columns, const TableLabels& labels,
                    const SplitRows& split, const std::string& where) {
  std::vector<std::string> wanted = {columns.image, split.column};
  wanted.insert(wanted.end(), columns.texts.begin(), columns.texts.end());
  if (!columns.label.empty()) std::ranges::copy(labels.read(), std::back_inserter(wanted));
  for (const std::string& name : wanted) {
    const auto count = std::ranges::count(table.columns, name);
    if (name.empty() || count == 1) continue;
    if (count > 1) {
      throw data_error(fmt::format("`{}` has {} columns `{}`", one_line(path), count, one_line(name)), where,
                       "give them different names in its first row");
    }
    throw data_error(fmt::format("`{}` has no column `{}`", one_line(path), one_line(name)), where,
                     name == "image" ? image_help(table.columns) : suggest_name(name, table.columns));
  }
}

// What a row's lines tell of a field that takes them all; empty where it has one.
std::string told_by_lines(std::string_view row) {
  const auto breaks = std::ranges::count(row, '\n');
  return breaks == 0 ? "" : fmt::format("; it has {} lines, as if a quote lacked its end", breaks + 1);
}

std::optional<std::vector<std::string>> fields_of(const CsvTable& table, std::string_view row, std::string* problem) {
  std::optional<std::vector<std::string>> fields;
  std::string why;
  if (row.size() > kMaxRow) {
    why = too_long(row.size()) + told_by_lines(row);
  } else if (fields = parse_csv_record(row, table.separator); !fields) {
    why = "a quote has no end";
  } else if (fields->size() != table.columns.size()) {
    why = fmt::format("it has {} field{}, and the first row {}", fields->size(), fields->size() == 1 ? "" : "s",
                      table.columns.size()) +
          told_by_lines(row);
    fields.reset();
  }
  if (problem) *problem = std::move(why);
  return fields;
}

// A quote without an end makes one row of all lines behind it, which would be lost with no more than a warning.
void expect_quotes_to_end(const std::string& path, const store::ReadableFile& file, const CsvTable& table, const Extent& last) {
  const std::string row = read_extent(file, last);
  const auto breaks = std::ranges::count(trim(row), '\n');  // without the end of the file's last line
  if (breaks == 0 || parse_csv_record(row, table.separator)) return;
  const std::string before = read_extent(file, {0, last.offset});
  throw data_error(fmt::format("a quote in line {} of `{}` has no end, and makes one row of all {} lines from there on",
                               std::ranges::count(before, '\n') + 1, one_line(path), breaks + 1),
                   {}, "close the quote, or double it where it belongs to the text");
}

std::vector<Extent> rows_of(const std::string& path, const store::ReadableFile& file, const CsvTable& table) {
  std::vector<Extent> rows = scan_csv(path, file, table.separator);
  if (!rows.empty()) expect_quotes_to_end(path, file, table, rows.back());
  if (table.header && !rows.empty()) rows.erase(rows.begin());
  return rows;
}

std::string column_value(const CsvTable& table, const std::vector<std::string>& fields, const std::string& column) {
  return fields[static_cast<size_t>(std::ranges::find(table.columns, column) - table.columns.begin())];
}

// A column of a row, or its labels; nothing where these can't be read, and `problem` then says why.
std::optional<JsonField> field_of(const CsvTable& table, const std::vector<std::string>& fields, const std::string& name,
                                  const TableLabels& labels, std::string* problem) {
  if (name == labels.name && !labels.columns.empty()) {
    std::vector<std::string> values;
    for (const std::string& column : labels.columns) values.push_back(column_value(table, fields, column));
    return columns_that_say_yes(labels.columns, values, problem);
  }
  std::string value = column_value(table, fields, name);
  if (name == labels.name)
    return labels.delimiter.empty() ? table_label(std::move(value)) : table_label_list(value, labels.delimiter);
  if (value.empty()) return JsonField();
  return JsonField{JsonField::Kind::kText, std::move(value)};
}

// Rows that cannot be read are samples too, for whoever counts them: where there are few samples, they may be nothing else.
void expect_rows(const Source& source, const CsvTables& tables, const SplitRows& split, const std::string& where) {
  constexpr int64_t kFew = 100;
  constexpr size_t kShown = 20;
  if (source.size() > kFew) return;
  std::set<std::string> values;
  for (const auto& [path, table] : tables) {
    const auto file = store::files_at(path).open(path);
    for (const Extent& row : rows_of(path, *file, table)) {
      const auto fields = fields_of(table, read_extent(*file, row), nullptr);
      if (!fields) continue;
      const std::string value = column_value(table, *fields, split.column);
      if (value == split.value) return;
      if (values.size() < kShown) values.insert(fmt::format("`{}`", one_line(value)));
    }
  }
  throw data_error(
      fmt::format("no row of `{}` has `{}` in its column `{}`", one_line(tables.begin()->first), one_line(split.value),
                  one_line(split.column)),
      where,
      values.empty() ? "the table has no row that can be read" : fmt::format("the column has {}", fmt::join(values, ", ")));
}

ListFormat table_format(const std::shared_ptr<const CsvTables>& tables, const TableLabels& labels, const SplitRows& split) {
  const auto scan = [tables, split](const std::string& path, const store::ReadableFile& file) {
    const CsvTable& table = tables->at(path);
    std::vector<Extent> rows = rows_of(path, file, table);
    if (split.column.empty()) return rows;
    std::erase_if(rows, [&](const Extent& row) {
      const auto fields = fields_of(table, read_extent(file, row), nullptr);
      // A row that cannot be read stays, for whoever counts such rows.
      return fields && column_value(table, *fields, split.column) != split.value;
    });
    return rows;
  };
  const auto fields = [tables, labels](const std::string& path, std::string_view row, const std::vector<std::string>& names,
                                       std::string* problem) -> std::optional<std::vector<JsonField>> {
    const CsvTable& table = tables->at(path);
    const auto all = fields_of(table, row, problem);
    if (!all) return std::nullopt;
    std::vector<JsonField> out;
    // A table of several may lack a column that nobody needs to read images.
    const auto lacks = [&](const std::string& name) {
      return name.empty() || (name != labels.name && std::ranges::find(table.columns, name) == table.columns.end());
    };
    for (const std::string& name : names) {
      auto field = lacks(name) ? JsonField() : field_of(table, *all, name, labels, problem);
      if (!field) return std::nullopt;
      out.push_back(*std::move(field));
    }
    return out;
  };
  return {"row", scan, fields, tables->begin()->second.columns};
}

// Tables often name images without their ending, or from another folder than their own: said before all of them are missed.
void tell_missing_image(const Source& source, const std::string& table, const std::string& root, const std::string& suffix) {
  namespace fs = std::filesystem;
  if (store::is_remote(table) || store::is_remote(root) || source.size() == 0) return;
  const fs::path folder = root.empty() ? fs::path(table).parent_path() : fs::path(root);
  const std::string named = source.id(0);
  const bool is_row = named.starts_with(fs::path(table).filename().string());  // one that can't be read, by its number
  std::error_code failed;
  if (is_row || fs::exists(folder / (named + suffix), failed) || failed) return;
  std::string slashes = named + suffix;
  std::ranges::replace(slashes, '\\', '/');
  std::string help = "root=FOLDER names their folder, suffix=.jpg adds an ending";
  if (fs::exists(fs::path(named + suffix), failed)) help = "root=. where paths start from the working directory";
  if (fs::exists(folder / slashes, failed)) help = "write / in place of \\ between folders and files";
  if (store::is_url(named)) help = "addresses in a table are not read; root=ADDRESS reads files below one";
  for (const char* ending : {".jpg", ".png", ".jpeg", ".JPEG", ".JPG"}) {
    std::error_code ignored;
    if (!fs::exists(folder / (named + suffix + ending), ignored)) continue;
    help = fmt::format("suffix={}{} adds the ending that it lacks", suffix, ending);
    break;
  }
  log_warning_once(fmt::format("the first image of `{}`, `{}`, is no file of `{}`: {}", one_line(table),
                               one_line(named + suffix), one_line(folder.empty() ? "." : folder.string()), help));
}

// Spreadsheets save tables in encodings of their own, in which names of files and classes are others. Warns of that, so that the
// files are not just missing. Returns whether it did.
bool tell_other_encoding(const Source& source, const std::string& table) {
  constexpr int64_t kRows = 1000;  // one of a server's, where each may be a request
  std::string found;
  const auto look = [&](const std::string& text) {
    if (found.empty() && !is_utf8(text)) found = text;
  };
  for (const std::string& name : source.class_names()) look(name);
  const int64_t rows = std::min(source.size(), store::is_remote(table) ? 1 : kRows);
  for (int64_t i = 0; i < rows && found.empty(); ++i) look(source.id(i));
  if (found.empty()) return false;
  log_warning_once(fmt::format("`{}` has `{}`, which is no UTF-8: save it as UTF-8, as by iconv -f LATIN1 -t UTF-8",
                               one_line(table), one_line(found)));
  return true;
}

// "2.0", as pandas writes whole numbers of a column in which some are missing.
bool is_whole_decimal(std::string_view label) {
  return label.size() > 2 && label.ends_with(".0") && label.find_first_not_of("0123456789") == label.size() - 2;
}

// They are names, and sorted as names are.
void tell_decimal_labels(const Source& source, const std::string& table) {
  const std::vector<std::string>& names = source.class_names();
  if (names.empty() || !std::ranges::all_of(names, is_whole_decimal)) return;
  log_note_once(
      fmt::format("`{}` has labels as `{}`, which are names, sorted as text (`10.0` before `2.0`); where they are "
                  "numbers of classes, write 0, 1, …",
                  one_line(table), one_line(names.front())));
}

// Where no row can be read there are no classes, and what is said of these hides why.
void tell_unreadable(const Source& source, const std::string& table) {
  if (source.size() == 0 || !source.class_names().empty()) return;
  Sample sample;
  const auto reason = source.read(0, sample);
  log_warning_once(fmt::format("no row of `{}` has a label that can be read; of the first: {}", one_line(table),
                               one_line(reason.value_or("it has none"))));
}

// Labels are split at spaces where nothing else is said: "cat|owl" is then a class of its own.
void tell_other_delimiter(const Source& source, const std::string& table) {
  for (const std::string& name : source.class_names()) {
    const size_t at = name.find_first_of("|;,");
    if (at == std::string::npos) continue;
    return log_warning_once(
        fmt::format("`{}` has labels as `{}`: where `{}` stands between two of them, add label_delim=\"{}\", "
                    "and else label_delim=\" \"",
                    one_line(table), one_line(name), name[at], name[at]));
  }
}

std::shared_ptr<const Source> make_csv(CallReader& call, std::string_view where_view) {
  const std::string where(where_view), path = call.text("path");
  const FieldArguments arguments = read_field_arguments(call, true);
  const std::string root = call.text("root", ""), suffix = call.text("suffix", "");
  const char separator = read_separator(call, path);
  const bool header = call.boolean("header", true);
  const SplitRows split = read_split_rows(call);
  TableLabels labels{{}, arguments.label_fields, read_label_delimiter(call, arguments)};
  const bool delimiter_said = call.has("label_delim");
  call.finish();
  const std::vector<std::string> paths = find_shards(path, where);
  auto tables = std::make_shared<CsvTables>();
  for (const std::string& one : paths) (*tables)[one] = read_csv_table(one, separator, header, where);
  const CsvTable& first = tables->at(paths[0]);
  const ListedColumns columns = choose_csv_columns(arguments, first);
  labels.name = columns.label;
  for (const auto& [one, table] : *tables) expect_columns(one, table, columns, labels, split, where);
  const std::string label = arguments.several_labels ? labels.identity() : columns.label;
  const std::string identity = fmt::format("csv({}, {}, sep={}, header={}, {}={})", absolute_path(path),
                                           arguments.label_identity(label), separator, header, split.column, split.value);
  auto source =
      list_images(paths, {path, identity, root, suffix, columns, table_format(tables, labels, split), where}, arguments);
  if (source->size() == 0 && split.column.empty())
    throw data_error(
        fmt::format("`{}` has no row{}", one_line(path), header ? " behind its first, which names the columns" : ""), where);
  if (!split.column.empty()) expect_rows(*source, *tables, split, where);
  if (!tell_other_encoding(*source, paths[0])) tell_missing_image(*source, paths[0], root, suffix);
  if (arguments.classes.empty()) tell_decimal_labels(*source, paths[0]);
  if (!columns.label.empty()) tell_unreadable(*source, paths[0]);
  if (!labels.delimiter.empty() && !delimiter_said) tell_other_delimiter(*source, paths[0]);
  if (split.column.empty() && std::ranges::count(first.columns, kSplitColumn) > 0) {
    log_note_once(fmt::format("`{}` has a column `split`, and all rows are used; split=train takes those with `train` in it",
                              one_line(path)));
  }
  return source;
}

}  // namespace

const SourceKind kCsv{"csv",
                      "csv(pattern[, image=image][, label=label or labels=tags][, label_delim=\" \"][, split=train][, "
                      "text=caption][, root=FOLDER][, suffix=.jpg][, sep=;]"
                      "[, header=false])",
                      "tables whose rows name image files; split=VALUE or split=COLUMN=VALUE takes the rows that have it; "
                      "labels=tags holds several "
                      "labels, labels=[cat, dog] are columns of 0 and 1; docs/csv.md",
                      make_csv};

}  // namespace tessera::data
