#include "monitor/tensorboard/hparams.h"

#include <protozero/pbf_writer.hpp>

namespace tessera::monitor {
namespace {

using protozero::pbf_writer;

constexpr uint32_t kSessionStartInfo = 3, kSessionEndInfo = 4;  // of HParamsPluginData
constexpr uint32_t kHparams = 1, kMapKey = 1, kMapValue = 2;    // of SessionStartInfo: a map
constexpr uint32_t kNumber = 2, kString = 3, kBool = 4;         // of google.protobuf.Value
constexpr uint32_t kStatus = 1;                                 // of SessionEndInfo
constexpr int32_t kUnknown = 0, kSuccess = 1, kFailure = 2;

int32_t status_number(Ending ending) {
  switch (ending) {
    case Ending::kComplete: return kSuccess;
    case Ending::kFailed: return kFailure;
    default: return kUnknown;  // it goes on some day
  }
}

void add_value(pbf_writer& out, const HyperParameter& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    out.add_bool(kBool, *flag);
  } else if (const auto* number = std::get_if<double>(&value)) {
    out.add_double(kNumber, *number);
  } else {
    out.add_string(kString, std::get<std::string>(value));
  }
}

}  // namespace

std::string session_start(const HyperParameters& parameters) {
  std::string out;
  pbf_writer data(out);
  pbf_writer info(data, kSessionStartInfo);
  for (const auto& [key, value] : parameters.values) {
    pbf_writer entry(info, kHparams);
    entry.add_string(kMapKey, key);
    pbf_writer of_entry(entry, kMapValue);
    add_value(of_entry, value);
  }
  return out;
}

std::string session_end(const RunEnd& end) {
  std::string out;
  pbf_writer data(out);
  pbf_writer info(data, kSessionEndInfo);
  info.add_enum(kStatus, status_number(end.ending));
  return out;
}

}  // namespace tessera::monitor
