#pragma once
// The factories behind sources.def. Each reads its arguments, calls finish() and opens the source.

#include "base/call.h"
#include "data/source.h"

namespace tessera::data {

#define SOURCE(name, factory, usage, meaning) std::shared_ptr<const Source> factory(CallReader& call, std::string_view where);
#include "data/sources.def"
#undef SOURCE

}  // namespace tessera::data
