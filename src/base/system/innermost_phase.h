#pragma once
// What a thread is at, for another one that watches it.

#include <functional>
#include <optional>

#include "base/system/spans.h"

namespace tessera {

// Of the thread that calls this: what is given says the innermost PhaseSpan that the thread is in by then, without its `end`, and
// nothing where it is in none. It may be called on any thread, also after that one has ended.
std::function<std::optional<SpanRecord>()> innermost_phase_of_this_thread();

}  // namespace tessera
