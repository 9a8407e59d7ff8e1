#include "monitor/sinks/sink.h"

namespace tessera::monitor {

const std::vector<const SinkKind*>& sink_kinds() {
  static const std::vector<const SinkKind*> kinds = {
#define SINK(object) &object,
#include "monitor/sinks/sinks.def"
#undef SINK
  };
  return kinds;
}

std::vector<std::string> sink_names() {
  std::vector<std::string> names;
  for (const SinkKind* kind : sink_kinds()) names.emplace_back(kind->name);
  return names;
}

const SinkKind* find_sink(const std::string& name) {
  for (const SinkKind* kind : sink_kinds()) {
    if (name == kind->name) return kind;
  }
  return nullptr;
}

}  // namespace tessera::monitor
