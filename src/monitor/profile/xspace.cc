#include "monitor/profile/xspace.h"

#include <algorithm>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/error.h"

namespace tessera::profile {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;

namespace xspace {
constexpr uint32_t kPlanes = 1, kHostnames = 4;
}
namespace plane {
constexpr uint32_t kId = 1, kName = 2, kLines = 3, kEventMetadata = 4, kStatMetadata = 5, kStats = 6;
}
namespace line {
constexpr uint32_t kId = 1, kName = 2, kTimestampNs = 3, kEvents = 4, kDurationPs = 9;
}
namespace event {
constexpr uint32_t kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4;
}
namespace stat {
constexpr uint32_t kMetadataId = 1, kUint64 = 3, kInt64 = 4, kString = 5;
}
namespace metadata {
constexpr uint32_t kId = 1, kName = 2, kDisplayName = 4;  // of events; of stats the first two
}
namespace entry {
constexpr uint32_t kKey = 1, kValue = 2;  // of a map
}

constexpr int64_t kPicoseconds = 1000;  // a nanosecond

// Names as numbers, in the order in which they were first asked for, from 1.
class Names {
 public:
  int64_t id(const std::string& name) {
    const auto [place, is_new] = ids_.try_emplace(name, static_cast<int64_t>(ids_.size()) + 1);
    if (is_new) names_.push_back(name);
    return place->second;
  }
  void write(pbf_writer& plane, uint32_t field) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      pbf_writer item(plane, field);
      item.add_int64(entry::kKey, static_cast<int64_t>(i) + 1);
      pbf_writer value(item, entry::kValue);
      value.add_int64(metadata::kId, static_cast<int64_t>(i) + 1);
      value.add_string(metadata::kName, names_[i]);
    }
  }

 private:
  std::map<std::string, int64_t> ids_;
  std::vector<std::string> names_;
};

// Readers take what is called "name:Type" for an operation, and add operations up by name and type.
std::string event_name(const SpanRecord& span) {
  switch (span.kind) {
    case SpanKind::kKernel: return std::string(span.name) + ":HostKernel";
    case SpanKind::kInput: return "input/" + std::string(span.name);
    case SpanKind::kSave: return "checkpoint/" + std::string(span.name);
    default: return span.name;
  }
}

void add_number(pbf_writer& out, uint32_t field, int64_t name, int64_t value) {
  pbf_writer number(out, field);
  number.add_int64(stat::kMetadataId, name);
  number.add_int64(stat::kInt64, value);
}

void add_event(pbf_writer& out, const SpanRecord& span, int64_t begin, Names& events, Names& stats) {
  pbf_writer item(out, line::kEvents);
  item.add_int64(event::kMetadataId, events.id(event_name(span)));
  item.add_int64(event::kOffsetPs, (span.begin - begin) * kPicoseconds);
  item.add_int64(event::kDurationPs, (span.end - span.begin) * kPicoseconds);
  if (span.number != kNoNumber) {
    const bool step = span.kind == SpanKind::kStep;
    add_number(item, event::kStats, stats.id(step ? "step_num" : "number"), span.number);
  }
  if (span.kind == SpanKind::kStep) add_number(item, event::kStats, stats.id("_r"), 1);  // the root of a group of events
}

void add_host_plane(pbf_writer& space, const Recording& recording) {
  pbf_writer out(space, xspace::kPlanes);
  Names events, stats;
  out.add_int64(plane::kId, 1);
  out.add_string(plane::kName, "/host:CPU");
  for (const ThreadRecord& thread : recording.threads) {
    pbf_writer item(out, plane::kLines);
    item.add_int64(line::kId, thread.id);
    item.add_string(line::kName, thread.name);
    item.add_int64(line::kDurationPs, (recording.end - recording.begin) * kPicoseconds);
    std::vector<SpanRecord> spans = thread.spans;
    std::ranges::sort(spans, [](const SpanRecord& a, const SpanRecord& b) {
      return std::pair(a.begin, b.end) < std::pair(b.begin, a.end);  // what contains others first
    });
    for (const SpanRecord& span : spans) add_event(item, span, recording.begin, events, stats);
  }
  events.write(out, plane::kEventMetadata);
  stats.write(out, plane::kStatMetadata);
}

// When it was taken.
void add_environment(pbf_writer& space, const Profile& profile) {
  pbf_writer out(space, xspace::kPlanes);
  Names stats;
  out.add_int64(plane::kId, 2);
  out.add_string(plane::kName, "Task Environment");
  const int64_t length = profile.recording.end - profile.recording.begin;
  for (const auto& [name, time] :
       {std::pair{"profile_start_time", profile.unix_begin}, std::pair{"profile_stop_time", profile.unix_begin + length}}) {
    pbf_writer item(out, plane::kStats);
    item.add_int64(stat::kMetadataId, stats.id(name));
    item.add_uint64(stat::kUint64, static_cast<uint64_t>(time));
  }
  stats.write(out, plane::kStatMetadata);
}

// The field that the reader is at, as it is.
void copy_field(pbf_reader& from, pbf_writer& to) {
  const protozero::pbf_tag_type tag = from.tag();  // before its value is taken
  switch (from.wire_type()) {
    case pbf_wire_type::varint: to.add_uint64(tag, from.get_uint64()); break;
    case pbf_wire_type::fixed64: to.add_fixed64(tag, from.get_fixed64()); break;
    case pbf_wire_type::length_delimited: to.add_bytes(tag, from.get_view()); break;
    case pbf_wire_type::fixed32: to.add_fixed32(tag, from.get_fixed32()); break;
    default: throw data_error("the plugin's profile has a field of an unknown kind");
  }
}

// A plugin counts from 1970 on, which picoseconds have no room for; what is counted from elsewhere stays.
int64_t since(int64_t timestamp, int64_t begin) { return timestamp >= begin ? timestamp - begin : timestamp; }

void copy_line(pbf_reader from, pbf_writer& to, int64_t begin) {
  while (from.next()) {
    if (from.tag() == line::kTimestampNs) {
      to.add_int64(line::kTimestampNs, since(from.get_int64(), begin));
    } else {
      copy_field(from, to);
    }
  }
}

void copy_plane(pbf_reader from, pbf_writer& to, int64_t begin) {
  while (from.next()) {
    if (from.tag() == plane::kLines) {
      pbf_writer item(to, plane::kLines);
      copy_line(from.get_message(), item, begin);
    } else {
      copy_field(from, to);
    }
  }
}

bool is_whole_message(std::string_view bytes) {
  try {
    pbf_reader from(bytes.data(), bytes.size());
    while (from.next()) from.skip();
    return true;
  } catch (const protozero::exception&) {
    return false;
  }
}

// libtpu and XLA's CUDA plugin count a zero byte behind the message as part of it. A message may itself end with one: then it is
// not whole without it.
pbf_reader reader_of(const std::string& space) {
  std::string_view bytes = space;
  if (bytes.ends_with('\0') && is_whole_message(bytes.substr(0, bytes.size() - 1))) bytes.remove_suffix(1);
  return pbf_reader(bytes.data(), bytes.size());
}

void add_device(pbf_writer& space, const Profile& profile) {
  pbf_reader from = reader_of(profile.device);
  while (from.next()) {
    if (from.tag() == xspace::kPlanes) {
      pbf_writer item(space, xspace::kPlanes);
      copy_plane(from.get_message(), item, profile.unix_begin);
    } else {
      copy_field(from, space);
    }
  }
}

// ---- reading ----

std::pair<int64_t, std::string> read_name(pbf_reader item) {
  int64_t id = 0;
  std::string name, display;
  while (item.next()) {
    if (item.tag() == entry::kKey) {
      id = item.get_int64();
    } else if (item.tag() == entry::kValue) {
      pbf_reader value = item.get_message();
      while (value.next()) {
        if (value.tag() == metadata::kName) {
          name = value.get_string();
        } else if (value.tag() == metadata::kDisplayName) {
          display = value.get_string();
        } else {
          value.skip();
        }
      }
    } else {
      item.skip();
    }
  }
  return {id, display.empty() ? name : display};
}

DeviceEvent read_event(pbf_reader item, int64_t start, const std::map<int64_t, std::string>& names) {
  DeviceEvent out;
  out.begin = start;
  while (item.next()) {
    switch (item.tag()) {
      case event::kMetadataId: {
        const auto name = names.find(item.get_int64());
        if (name != names.end()) out.name = name->second;
        break;
      }
      case event::kOffsetPs: out.begin = start + item.get_int64() / kPicoseconds; break;
      case event::kDurationPs: out.duration = item.get_int64() / kPicoseconds; break;
      default: item.skip();
    }
  }
  return out;
}

DeviceLine read_line(pbf_reader item, int64_t begin, const std::map<int64_t, std::string>& names, int64_t& left) {
  DeviceLine out;
  int64_t start = 0;
  std::vector<pbf_reader> events;
  while (item.next()) {
    switch (item.tag()) {
      case line::kName: out.name = item.get_string(); break;
      case line::kTimestampNs: start = since(item.get_int64(), begin); break;
      case line::kEvents:
        if (left-- > 0) {
          events.push_back(item.get_message());
        } else {
          item.skip();
        }
        break;
      default: item.skip();
    }
  }
  for (const pbf_reader& each : events) out.events.push_back(read_event(each, start, names));
  return out;
}

DevicePlane read_plane(pbf_reader item, int64_t begin, int64_t& left) {
  DevicePlane out;
  std::map<int64_t, std::string> names;
  std::vector<pbf_reader> lines;
  while (item.next()) {
    switch (item.tag()) {
      case plane::kName: out.name = item.get_string(); break;
      case plane::kEventMetadata: names.insert(read_name(item.get_message())); break;
      case plane::kLines: lines.push_back(item.get_message()); break;
      default: item.skip();
    }
  }
  for (const pbf_reader& each : lines) out.lines.push_back(read_line(each, begin, names, left));
  return out;
}

[[noreturn]] void throw_unreadable(const std::exception& error) {
  throw data_error(std::string("the plugin's profile cannot be read: ") + error.what());
}

}  // namespace

std::string to_xspace(const Profile& profile) {
  std::string out;
  pbf_writer space(out);
  add_host_plane(space, profile.recording);
  add_environment(space, profile);
  try {
    add_device(space, profile);
  } catch (const protozero::exception& error) {
    throw_unreadable(error);
  }
  space.add_string(xspace::kHostnames, profile.host);
  return out;
}

std::vector<DevicePlane> read_device(const Profile& profile, int64_t most) {
  std::vector<DevicePlane> out;
  try {
    pbf_reader from = reader_of(profile.device);
    while (from.next(xspace::kPlanes)) out.push_back(read_plane(from.get_message(), profile.unix_begin, most));
  } catch (const protozero::exception& error) {
    throw_unreadable(error);
  }
  return out;
}

}  // namespace tessera::profile
