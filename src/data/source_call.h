#pragma once
// What a kind of source is. To add one, write a file in data/sources/ with a `const SourceKind` and a line in sources.def.

#include <memory>
#include <string_view>

#include "base/text/call.h"
#include "data/source.h"

namespace tessera::data {

struct SourceKind {
  const char *name, *usage, *meaning;  // usage: how to write it; meaning: what it is
  // Reads its arguments, calls finish() and opens the source; `where` is the recipe key.
  std::shared_ptr<const Source> (*make)(CallReader& call, std::string_view where);
};
#define SOURCE(object) extern const SourceKind object;
#include "data/sources.def"
#undef SOURCE

}  // namespace tessera::data
