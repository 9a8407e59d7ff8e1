#include "monitor/tensorboard/event.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace tessera::monitor {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;
using protozero::tag_and_type;

namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}  // namespace event
namespace session_log {
constexpr uint32_t kStatus = 1;
constexpr int32_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr uint32_t kValue = 1;
constexpr uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;  // of a Value
constexpr uint32_t kPluginData = 1, kPluginName = 1, kDataClass = 4;        // of its SummaryMetadata
constexpr int32_t kTensorClass = 2;
}  // namespace summary
namespace tensor {
constexpr uint32_t kDtype = 1, kShape = 2, kStringVal = 8;
constexpr uint32_t kDim = 2, kSize = 1;  // of a TensorShapeProto
constexpr int32_t kString = 7;           // DT_STRING
}  // namespace tensor

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

void add_metadata(pbf_writer& value, const char* plugin, int32_t data_class) {
  pbf_writer metadata(value, summary::kMetadata);
  {
    pbf_writer plugin_data(metadata, summary::kPluginData);
    plugin_data.add_string(summary::kPluginName, plugin);
  }
  metadata.add_enum(summary::kDataClass, data_class);
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
  {
    pbf_writer tensor(value, summary::kTensor);
    tensor.add_enum(tensor::kDtype, tensor::kString);
    {
      pbf_writer shape(tensor, tensor::kShape);
      pbf_writer dim(shape, tensor::kDim);
      dim.add_int64(tensor::kSize, 1);
    }
    tensor.add_bytes(tensor::kStringVal, text.markdown);
  }
  add_metadata(value, "text", summary::kTensorClass);
}

bool has_scalar(pbf_reader summary) {
  while (summary.next(summary::kValue, pbf_wire_type::length_delimited)) {
    pbf_reader value = summary.get_message();
    if (value.next(summary::kSimpleValue, pbf_wire_type::fixed32)) return true;
  }
  return false;
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
  std::string content;
  pbf_writer writer(content);
  std::visit([&](const auto& what) { add_content(writer, what); }, record.content);
  if (content.empty()) return {};
  std::string out;
  begin_event(out, record.time, record.step).add_message(event::kSummary, content);
  return out;
}

std::optional<EventFacts> read_event(std::string_view bytes) {
  EventFacts facts;
  try {
    for (pbf_reader reader(bytes.data(), bytes.size()); reader.next();) {
      switch (reader.tag_and_type()) {
        case tag_and_type(event::kStep, pbf_wire_type::varint): facts.step = reader.get_int64(); break;
        case tag_and_type(event::kSummary, pbf_wire_type::length_delimited):
          facts.scalars = has_scalar(reader.get_message());
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
