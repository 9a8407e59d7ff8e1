#include "monitor/record.h"

namespace tessera::monitor {
namespace {

size_t bytes_of(const Scalars& scalars) {
  size_t bytes = scalars.metrics.size() * sizeof(Metric);
  for (const Metric& metric : scalars.metrics) bytes += metric.name.size();
  return bytes;
}
size_t bytes_of(const Text& text) { return text.name.size() + text.markdown.size(); }

}  // namespace

size_t Record::bytes() const {
  return sizeof *this + std::visit([](const auto& what) { return bytes_of(what); }, content);
}

}  // namespace tessera::monitor
