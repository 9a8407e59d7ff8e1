#include "monitor/record.h"

#include "base/text/text.h"

namespace tessera::monitor {

std::string as_code(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) out += "    " + line + "\n";
  return out;
}

namespace {

size_t bytes_of(const Scalars& scalars) {
  size_t bytes = scalars.metrics.size() * sizeof(Metric);
  for (const Metric& metric : scalars.metrics) bytes += metric.name.size();
  return bytes;
}
size_t bytes_of(const Text& text) { return text.name.size() + text.markdown.size(); }
size_t bytes_of(const Images& images) {
  size_t bytes = 0;
  for (const image::Image& image : images.images) bytes += sizeof image + image.byte_count();
  return bytes;
}
size_t bytes_of(const Histograms& histograms) {
  size_t bytes = 0;
  for (const Histogram& h : histograms.histograms) bytes += sizeof h + h.name.size() + h.counts.size() * sizeof(double);
  return bytes;
}
size_t bytes_of(const ModelGraph& graph) {
  size_t bytes = 0;
  for (const GraphNode& node : graph.nodes) {
    bytes += sizeof node + node.name.size();
    for (const std::string& input : node.inputs) bytes += sizeof(std::string) + input.size();
  }
  return bytes;
}
size_t bytes_of(const Embedding& embedding) {
  size_t bytes = embedding.values.size() * sizeof(float);
  for (const image::Image& image : embedding.images) bytes += sizeof image + image.byte_count();
  for (const std::string& id : embedding.ids) bytes += 2 * sizeof(std::string) + id.size();
  return bytes;
}
size_t bytes_of(const HyperParameters& parameters) { return parameters.values.size() * sizeof parameters.values[0]; }
size_t bytes_of(const RunEnd&) { return 0; }

}  // namespace

size_t Record::bytes() const {
  return sizeof *this + std::visit([](const auto& what) { return bytes_of(what); }, content);
}

}  // namespace tessera::monitor
