#include "data/source.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "data/source_call.h"

namespace tessera::data {
namespace {

#define SOURCE(object) &object,
constexpr const SourceKind* kSources[] = {
#include "data/sources.def"
};
#undef SOURCE

}  // namespace

std::shared_ptr<const Source> make_source(std::string_view text, std::string_view where) {
  const Call call = parse_call(text, where);
  std::vector<std::string> names;
  for (const SourceKind* kind : kSources) {
    names.emplace_back(kind->name);
    if (call.name != kind->name) continue;
    CallReader reader(call, where);
    return kind->make(reader, where);
  }
  throw usage_error(fmt::format("unknown data source `{}`", call.name), std::string(where), suggest_name(call.name, names));
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
