// jsonl(pattern): files of JSON objects, one a line, that name image files.

#include "base/error.h"
#include "base/text/text.h"
#include "data/formats/lines.h"
#include "data/records/listed_images.h"
#include "data/source_call.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

const ListFormat kFormat = {
    "JSON object",
    scan_lines,
    [](const std::string&, std::string_view line, const std::vector<std::string>& names, std::string* problem) {
      return parse_json_fields(line, names, problem);
    },
};

ListedColumns choose_jsonl_fields(const FieldArguments& arguments, const std::string& path, const std::string& where) {
  std::vector<std::string> names;
  std::string first;
  try {
    const auto file = store::files_at(path).open(path);
    first = first_line(path, *file);
  } catch (const Error& error) {
    throw data_error(error.message(), where, error.help());
  }
  if (first.empty()) throw data_error(fmt::format("`{}` has no lines", path), where, "write one JSON object a line");
  names = json_field_names(first);
  if (names.empty()) {
    throw data_error(fmt::format("the first line of `{}` is no JSON object", path), where,
                     "write one object a line: {\"image\": \"a.jpg\", \"label\": 3}");
  }
  ListedColumns columns{arguments.image.value_or("image"), {}, arguments.texts};
  const auto has = [&](const std::string& name) {
    return (*parse_json_fields(first, {name}))[0].kind != JsonField::Kind::kAbsent;
  };
  if (!arguments.no_label && (arguments.label || has("label"))) columns.label = arguments.label.value_or("label");
  for (const std::string& name : columns.all()) {
    if (name.empty() || has(name)) continue;
    throw data_error(fmt::format("the first line of `{}` has no `{}`", path, name), where, suggest_name(name, names));
  }
  return columns;
}

std::shared_ptr<const Source> make_jsonl(CallReader& call, std::string_view where_view) {
  const std::string where(where_view), path = call.text("path");
  const FieldArguments arguments = read_field_arguments(call);
  const std::string root = call.text("root", "");
  call.finish();
  const std::vector<std::string> paths = find_shards(path, where);
  const ListedColumns columns = choose_jsonl_fields(arguments, paths[0], where);
  const std::string identity = fmt::format("jsonl({}, {})", absolute_path(path), arguments.label_identity(columns.label));
  return list_images(paths, {path, identity, root, {}, columns, kFormat, where}, arguments);
}

}  // namespace

const SourceKind kJsonl{
    "jsonl", "jsonl(pattern[, image=image][, label=label][, text=caption][, root=FOLDER])",
    "a JSON object a line that names an image file; a text may be an array of texts; labels=tags is an array of labels",
    make_jsonl};

}  // namespace tessera::data
