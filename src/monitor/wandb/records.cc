#include "monitor/wandb/records.h"

#include <cmath>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace tessera::monitor {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;
using protozero::tag_and_type;

namespace record {
constexpr uint32_t kNum = 1, kHistory = 2, kSummary = 3, kConfig = 5, kFiles = 6, kOutputRaw = 13, kRun = 17, kExit = 18,
                   kHeader = 21, kPreempting = 23, kEnvironment = 26;
}  // namespace record
namespace header {
constexpr uint32_t kVersionInfo = 1;
constexpr uint32_t kProducer = 1, kMinConsumer = 2;  // of VersionInfo
}  // namespace header
namespace run {
constexpr uint32_t kRunId = 1, kEntity = 2, kProject = 3, kRunGroup = 6, kJobType = 7, kDisplayName = 8, kNotes = 9, kTags = 10,
                   kHost = 13, kStartTime = 17;
}  // namespace run
namespace environment {
constexpr uint32_t kStartedAt = 3, kArgs = 5, kProgram = 6, kHost = 12, kWriterId = 199;
}  // namespace environment
namespace history {
constexpr uint32_t kItem = 1, kStep = 2;
constexpr uint32_t kStepNum = 1;  // of HistoryStep
}  // namespace history
namespace item {
constexpr uint32_t kKey = 1, kNestedKey = 2, kValueJson = 16;
}  // namespace item
constexpr uint32_t kUpdate = 1;  // of ConfigRecord and SummaryRecord
namespace files {
constexpr uint32_t kFiles = 1, kPath = 1, kType = 3;
constexpr int32_t kMedia = 2;
}  // namespace files
namespace output {
constexpr uint32_t kTimestamp = 2, kLine = 3;  // stderr is the type 0
}  // namespace output
namespace run_exit {
constexpr uint32_t kExitCode = 1, kRuntime = 2;
}  // namespace run_exit
constexpr uint32_t kSeconds = 1, kNanos = 2;  // of google.protobuf.Timestamp

// The oldest reader that knows what these records say, as wandb's own writer has it.
constexpr const char* kMinConsumer = "0.70.0";

void add_time(pbf_writer& out, uint32_t field, double time) {
  const double whole = std::floor(time);
  pbf_writer timestamp(out, field);
  timestamp.add_int64(kSeconds, static_cast<int64_t>(whole));
  timestamp.add_int32(kNanos, static_cast<int32_t>((time - whole) * 1e9));
}

void add_text(pbf_writer& out, uint32_t field, const std::string& text) {
  if (!text.empty()) out.add_string(field, text);
}

void add_items(pbf_writer& out, uint32_t field, const WandbItems& items) {
  for (const auto& [key, json] : items) {
    pbf_writer one(out, field);
    one.add_string(item::kNestedKey, key);
    one.add_string(item::kValueJson, json);
  }
}

// What fills in the one message of a record.
template <class Fill>
std::string content(uint32_t field, Fill&& fill) {
  std::string out;
  pbf_writer writer(out);
  pbf_writer message(writer, field);
  fill(message);
  message.commit();
  return out;
}

std::pair<std::string, std::string> read_item(pbf_reader reader) {
  std::pair<std::string, std::string> out;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case tag_and_type(item::kKey, pbf_wire_type::length_delimited):
      case tag_and_type(item::kNestedKey, pbf_wire_type::length_delimited): out.first = reader.get_string(); break;
      case tag_and_type(item::kValueJson, pbf_wire_type::length_delimited): out.second = reader.get_string(); break;
      default: reader.skip();
    }
  }
  return out;
}

WandbRow read_history(pbf_reader reader) {
  WandbRow row;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case tag_and_type(history::kItem, pbf_wire_type::length_delimited):
        row.items.push_back(read_item(reader.get_message()));
        break;
      case tag_and_type(history::kStep, pbf_wire_type::length_delimited): {
        pbf_reader step = reader.get_message();
        if (step.next(history::kStepNum, pbf_wire_type::varint)) row.step = step.get_int64();
        break;
      }
      default: reader.skip();
    }
  }
  return row;
}

double read_time(pbf_reader reader) {
  double seconds = 0, nanos = 0;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case tag_and_type(kSeconds, pbf_wire_type::varint): seconds = static_cast<double>(reader.get_int64()); break;
      case tag_and_type(kNanos, pbf_wire_type::varint): nanos = reader.get_int32(); break;
      default: reader.skip();
    }
  }
  return seconds + nanos * 1e-9;
}

WandbStart read_run(pbf_reader reader) {
  WandbStart start;
  while (reader.next()) {
    if (reader.tag_and_type() == tag_and_type(run::kStartTime, pbf_wire_type::length_delimited)) {
      start.time = read_time(reader.get_message());
    } else {
      reader.skip();
    }
  }
  return start;
}

// A record's field with its tag, as it is.
WandbOther copy_of(uint32_t field, pbf_reader& reader) {
  WandbOther other;
  pbf_writer(other.content).add_message(field, reader.get_view());
  return other;
}

}  // namespace

std::string wandb_header(const std::string& version) {
  return content(record::kHeader, [&](pbf_writer& out) {
    pbf_writer info(out, header::kVersionInfo);
    info.add_string(header::kProducer, version);
    info.add_string(header::kMinConsumer, kMinConsumer);
  });
}

std::string wandb_run(const WandbRun& of) {
  return content(record::kRun, [&](pbf_writer& out) {
    add_text(out, run::kRunId, of.id);
    add_text(out, run::kEntity, of.entity);
    add_text(out, run::kProject, of.project);
    add_text(out, run::kRunGroup, of.group);
    add_text(out, run::kJobType, of.job_type);
    add_text(out, run::kDisplayName, of.name);
    add_text(out, run::kNotes, of.notes);
    for (const std::string& tag : of.tags) add_text(out, run::kTags, tag);
    add_text(out, run::kHost, of.host);
    add_time(out, run::kStartTime, of.start_time);
  });
}

std::string wandb_environment(const WandbRun& of) {
  return content(record::kEnvironment, [&](pbf_writer& out) {
    add_time(out, environment::kStartedAt, of.start_time);
    const size_t end = of.command.find(' ');
    if (end != std::string::npos) out.add_string(environment::kArgs, of.command.substr(end + 1));
    add_text(out, environment::kProgram, of.command.substr(0, end));
    add_text(out, environment::kHost, of.host);
    add_text(out, environment::kWriterId, of.id);
  });
}

std::string wandb_config(const WandbItems& items) {
  return content(record::kConfig, [&](pbf_writer& out) { add_items(out, kUpdate, items); });
}

std::string wandb_history(int64_t step, const WandbItems& items) {
  return content(record::kHistory, [&](pbf_writer& out) {
    add_items(out, history::kItem, items);
    pbf_writer of_step(out, history::kStep);
    of_step.add_int64(history::kStepNum, step);
  });
}

std::string wandb_summary(const WandbItems& items, double runtime) {
  return content(record::kSummary, [&](pbf_writer& out) {
    add_items(out, kUpdate, items);
    pbf_writer seconds(out, kUpdate);
    seconds.add_string(item::kNestedKey, "_wandb");
    seconds.add_string(item::kNestedKey, "runtime");
    seconds.add_string(item::kValueJson, std::to_string(static_cast<int64_t>(runtime)));
  });
}

std::string wandb_file(const std::string& path) {
  return content(record::kFiles, [&](pbf_writer& out) {
    pbf_writer file(out, files::kFiles);
    file.add_string(files::kPath, path);
    if (path.starts_with("media/")) file.add_enum(files::kType, files::kMedia);
  });
}

std::string wandb_output(double time, const std::string& line) {
  return content(record::kOutputRaw, [&](pbf_writer& out) {
    add_time(out, output::kTimestamp, time);
    out.add_string(output::kLine, line);
  });
}

std::string wandb_preempting() {
  std::string out;
  pbf_writer(out).add_message(record::kPreempting, std::string());
  return out;
}

std::string wandb_exit(int exit_code, double runtime) {
  return content(record::kExit, [&](pbf_writer& out) {
    if (exit_code != 0) out.add_int32(run_exit::kExitCode, exit_code);
    out.add_int32(run_exit::kRuntime, static_cast<int32_t>(runtime));
  });
}

std::string wandb_record(int64_t number, std::string_view content) {
  std::string out;
  pbf_writer(out).add_int64(record::kNum, number);
  out += content;  // fields may stand in any order
  return out;
}

WandbKept read_wandb_record(std::string_view bytes) {
  try {
    for (pbf_reader reader(bytes.data(), bytes.size()); reader.next();) {
      switch (reader.tag_and_type()) {
        case tag_and_type(record::kHistory, pbf_wire_type::length_delimited): return read_history(reader.get_message());
        case tag_and_type(record::kRun, pbf_wire_type::length_delimited): return read_run(reader.get_message());
        case tag_and_type(record::kFiles, pbf_wire_type::length_delimited): return copy_of(record::kFiles, reader);
        case tag_and_type(record::kOutputRaw, pbf_wire_type::length_delimited): return copy_of(record::kOutputRaw, reader);
        default: reader.skip();
      }
    }
  } catch (const protozero::exception&) {
    // Not one of ours.
  }
  return std::monostate();
}

}  // namespace tessera::monitor
