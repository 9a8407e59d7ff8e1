#include "monitor/tensorboard/event.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "image/codec/png.h"
#include "monitor/tensorboard/graph_def.h"
#include "monitor/tensorboard/hparams.h"

namespace tessera::monitor {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;
using protozero::tag_and_type;

namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kGraphDef = 4, kSummary = 5, kSessionLog = 7;
}  // namespace event
namespace session_log {
constexpr uint32_t kStatus = 1;
constexpr int32_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr uint32_t kValue = 1;
constexpr uint32_t kTag = 1, kSimpleValue = 2, kHisto = 5, kTensor = 8, kMetadata = 9;  // of a Value
constexpr uint32_t kPluginData = 1, kDataClass = 4;                                     // of its SummaryMetadata
constexpr uint32_t kPluginName = 1, kContent = 2;                                       // of its PluginData
constexpr int32_t kTensorClass = 2, kBlobSequence = 3;
}  // namespace summary
namespace tensor {
constexpr uint32_t kDtype = 1, kShape = 2, kStringVal = 8;
constexpr uint32_t kDim = 2, kSize = 1;  // of a TensorShapeProto
constexpr int32_t kFloat = 1, kString = 7;
}  // namespace tensor
namespace histogram {
constexpr uint32_t kMin = 1, kMax = 2, kNum = 3, kSum = 4, kSumSquares = 5, kBucketLimit = 6, kBucket = 7;
}  // namespace histogram

pbf_writer begin_event(std::string& out, double time, int64_t step) {
  pbf_writer writer(out);
  writer.add_double(event::kWallTime, time);
  if (step != 0) writer.add_int64(event::kStep, step);
  return writer;
}

std::optional<float> scalar_of(const MetricValue& value) {
  if (std::holds_alternative<std::string>(value)) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1.0F : 0.0F;
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<float>(*number);
  if (const auto* number = std::get_if<float>(&value)) return *number;
  return static_cast<float>(std::get<double>(value));
}

void add_metadata(pbf_writer& value, const char* plugin, int32_t data_class, const std::string& content = {}) {
  pbf_writer metadata(value, summary::kMetadata);
  {
    pbf_writer plugin_data(metadata, summary::kPluginData);
    plugin_data.add_string(summary::kPluginName, plugin);
    if (!content.empty()) plugin_data.add_bytes(summary::kContent, content);
  }
  metadata.add_enum(summary::kDataClass, data_class);
}

// Of one dimension. `strings` are its elements, where it is of strings.
void add_tensor(pbf_writer& value, int32_t dtype, const std::vector<std::string>& strings) {
  pbf_writer tensor(value, summary::kTensor);
  tensor.add_enum(tensor::kDtype, dtype);
  {
    pbf_writer shape(tensor, tensor::kShape);
    pbf_writer dim(shape, tensor::kDim);
    dim.add_int64(tensor::kSize, static_cast<int64_t>(strings.size()));
  }
  for (const std::string& element : strings) tensor.add_bytes(tensor::kStringVal, element);
}

void add_content(pbf_writer& out, const Scalars& scalars) {
  for (const Metric& metric : scalars.metrics) {
    const std::optional<float> number = scalar_of(metric.value);
    if (!number) continue;
    pbf_writer value(out, summary::kValue);
    value.add_string(summary::kTag, metric.name);
    value.add_float(summary::kSimpleValue, *number);
  }
}

void add_content(pbf_writer& out, const Text& text) {
  pbf_writer value(out, summary::kValue);
  value.add_string(summary::kTag, text.name);
  add_tensor(value, tensor::kString, {text.markdown});
  add_metadata(value, "text", summary::kTensorClass);
}

// As TensorFlow 2 has them: width and height as text, then the pictures. All have the size of the first.
void add_content(pbf_writer& out, const Images& images) {
  if (images.images.empty()) return;
  std::vector<std::string> strings = {std::to_string(images.images[0].width()), std::to_string(images.images[0].height())};
  for (const image::Image& image : images.images) {
    const std::vector<uint8_t> png = image::encode_png(image.view());
    strings.emplace_back(png.begin(), png.end());
  }
  pbf_writer value(out, summary::kValue);
  value.add_string(summary::kTag, images.name);
  add_tensor(value, tensor::kString, strings);
  add_metadata(value, "images", summary::kBlobSequence);
}

void add_content(pbf_writer& out, const Histograms& histograms) {
  for (const Histogram& h : histograms.histograms) {
    std::vector<double> limits;
    const auto parts = static_cast<double>(h.counts.size());
    double all = 0;
    for (size_t i = 0; i < h.counts.size(); ++i) {
      limits.push_back(h.least + (h.greatest - h.least) * static_cast<double>(i + 1) / parts);
      all += h.counts[i];
    }
    pbf_writer value(out, summary::kValue);
    value.add_string(summary::kTag, h.name);
    pbf_writer histo(value, summary::kHisto);
    histo.add_double(histogram::kMin, h.least);
    histo.add_double(histogram::kMax, h.greatest);
    histo.add_double(histogram::kNum, all);
    histo.add_double(histogram::kSum, h.sum);
    histo.add_double(histogram::kSumSquares, h.sum_of_squares);
    histo.add_packed_double(histogram::kBucketLimit, limits.begin(), limits.end());
    histo.add_packed_double(histogram::kBucket, h.counts.begin(), h.counts.end());
  }
}

// What the HParams tab reads stands in a summary's metadata.
void add_hparams(pbf_writer& out, const char* tag, const std::string& content) {
  pbf_writer value(out, summary::kValue);
  value.add_string(summary::kTag, std::string(kHparamsTags) + tag);
  add_tensor(value, tensor::kFloat, {});
  add_metadata(value, "hparams", summary::kTensorClass, content);
}

void add_content(pbf_writer& out, const HyperParameters& parameters) {
  add_hparams(out, "session_start_info", session_start(parameters));
}
void add_content(pbf_writer& out, const RunEnd& end) { add_hparams(out, "session_end_info", session_end(end)); }

// Not summaries.
void add_content(pbf_writer&, const ModelGraph&) {}
void add_content(pbf_writer&, const Embedding&) {}

void read_summary(pbf_reader summary, EventFacts& facts) {
  while (summary.next(summary::kValue, pbf_wire_type::length_delimited)) {
    for (pbf_reader value = summary.get_message(); value.next();) {
      switch (value.tag_and_type()) {
        case tag_and_type(summary::kSimpleValue, pbf_wire_type::fixed32): facts.scalars = true; break;
        case tag_and_type(summary::kTag, pbf_wire_type::length_delimited): {
          const protozero::data_view tag = value.get_view();
          facts.of_run = facts.of_run || std::string_view(tag.data(), tag.size()).starts_with(kHparamsTags);
          continue;
        }
        default: break;
      }
      value.skip();
    }
  }
}

bool is_start(pbf_reader log) {
  return log.next(session_log::kStatus, pbf_wire_type::varint) && log.get_enum() == session_log::kStart;
}

}  // namespace

std::string version_event(double time) {
  std::string out;
  begin_event(out, time, 0).add_string(event::kFileVersion, "brain.Event:2");
  return out;
}

std::string start_event(double time, int64_t step) {
  std::string out;
  pbf_writer writer = begin_event(out, time, step);
  pbf_writer log(writer, event::kSessionLog);
  log.add_enum(session_log::kStatus, session_log::kStart);
  return out;
}

std::string record_event(const Record& record) {
  const auto* graph = std::get_if<ModelGraph>(&record.content);
  std::string content = graph ? graph_def(*graph) : std::string();
  pbf_writer writer(content);
  std::visit([&](const auto& what) { add_content(writer, what); }, record.content);
  if (content.empty()) return {};
  std::string out;
  begin_event(out, record.time, record.step).add_bytes(graph ? event::kGraphDef : event::kSummary, content);
  return out;
}

std::optional<EventFacts> read_event(std::string_view bytes) {
  EventFacts facts;
  try {
    for (pbf_reader reader(bytes.data(), bytes.size()); reader.next();) {
      switch (reader.tag_and_type()) {
        case tag_and_type(event::kStep, pbf_wire_type::varint): facts.step = reader.get_int64(); break;
        case tag_and_type(event::kSummary, pbf_wire_type::length_delimited): read_summary(reader.get_message(), facts); break;
        case tag_and_type(event::kGraphDef, pbf_wire_type::length_delimited):
          facts.of_run = true;
          reader.skip();
          break;
        case tag_and_type(event::kSessionLog, pbf_wire_type::length_delimited):
          facts.start = is_start(reader.get_message());
          break;
        default: reader.skip();
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return facts;
}

}  // namespace tessera::monitor
