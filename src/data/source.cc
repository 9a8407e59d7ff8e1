#include "data/source.h"

#include "base/call.h"
#include "base/error.h"
#include "base/text.h"
#include "data/source_call.h"

namespace tessera::data {
namespace {

struct Entry {
  const char* name;
  std::shared_ptr<const Source> (*make)(CallReader&, std::string_view where);
  const char *usage, *meaning;
};
#define SOURCE(name, factory, usage, meaning) {#name, factory, usage, meaning},
constexpr Entry kSources[] = {
#include "data/sources.def"
};
#undef SOURCE

}  // namespace

std::shared_ptr<const Source> make_source(std::string_view text, std::string_view where) {
  const Call call = parse_call(text, where);
  std::vector<std::string> names;
  for (const Entry& entry : kSources) {
    names.emplace_back(entry.name);
    if (call.name != entry.name) continue;
    CallReader reader(call, where);
    return entry.make(reader, where);
  }
  throw usage_error(fmt::format("unknown data source `{}`", call.name), std::string(where), suggest_name(call.name, names));
}

std::vector<SourceKind> source_kinds() {
  std::vector<SourceKind> kinds;
  for (const Entry& entry : kSources) kinds.push_back({entry.usage, entry.meaning});
  return kinds;
}

}  // namespace tessera::data
