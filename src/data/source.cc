#include "data/source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "data/source_call.h"
#include "store/file.h"

namespace tessera::data {
namespace {

#define SOURCE(object) &object,
constexpr const SourceKind* kSources[] = {
#include "data/sources.def"
};
#undef SOURCE

// What is written otherwise than as a source or an argument of this name; empty: nothing.
std::string help_for_other(const std::string& name) {
  for (const char* other : {"fold", "kfold", "split", "subset", "holdout"}) {
    if (name == other) return "part(folder(photos), train, 20 %), or fold=0/5 in place of 20 %; tessera help part";
  }
  return name == "balance" ? "a key of the recipe: data.shuffle=balanced; tessera help data.shuffle" : "";
}

// What was meant by the name of a source that there is none of.
std::string help_for_source(const std::string& name, const std::vector<std::string>& names) {
  if (std::string other = help_for_other(name); !other.empty()) return other;
  for (const char* ending : {".csv", ".tsv"}) {
    if (name.ends_with(ending)) return fmt::format("write csv({}, image=COLUMN, label=COLUMN)", name);
  }
  for (const auto& [ending, kind] : {std::pair{".jsonl", "jsonl"}, {".parquet", "parquet"}, {".tar", "wds"}}) {
    if (name.ends_with(ending)) return fmt::format("write {}({}); tessera help {}", kind, name, kind);
  }
  for (const char* ending : {".zip", ".tgz", ".tar.gz", ".rar", ".7z"}) {
    if (name.ends_with(ending)) return "unpack it, and write folder(DIR) of what was in it";
  }
  if (name.ends_with(".toml")) return "that is a recipe; a source is folder(DIR), or another one of tessera help sources";
  if (name.find('/') != std::string::npos || store::local_files().info(name)) return fmt::format("write folder({})", name);
  return suggest_name(name, names);
}

}  // namespace

std::shared_ptr<const Source> make_source(std::string_view text, std::string_view where) {
  const Call call = parse_call(text, where);
  std::vector<std::string> names;
  for (const SourceKind* kind : kSources) {
    names.emplace_back(kind->name);
    if (call.name != kind->name) continue;
    CallReader reader(call, where);
    reader.explain_unknown(help_for_other);
    return kind->make(reader, where);
  }
  throw usage_error(fmt::format("unknown data source `{}`", call.name), std::string(where), help_for_source(call.name, names));
}

std::vector<std::string_view> class_names_of(const Source& source, const Sample& sample) {
  std::vector<std::string_view> names;
  if (source.class_names().empty()) return names;
  const auto add = [&](int32_t label) { names.emplace_back(source.class_names()[static_cast<size_t>(label)]); };
  if (!source.multi_label()) add(sample.label);
  if (source.multi_label()) std::ranges::for_each(sample.labels, add);
  return names;
}

std::vector<int64_t> count_classes(const std::vector<std::vector<int32_t>>& lists, size_t classes) {
  std::vector<int64_t> counts(classes);
  for (const std::vector<int32_t>& list : lists) {
    for (const int32_t label : list) ++counts[static_cast<size_t>(label)];
  }
  return counts;
}

std::vector<SourceUsage> source_usages() {
  std::vector<SourceUsage> usages;
  for (const SourceKind* kind : kSources) usages.push_back({kind->usage, kind->meaning});
  return usages;
}

}  // namespace tessera::data
