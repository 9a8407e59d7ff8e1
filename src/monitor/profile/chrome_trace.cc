#include "monitor/profile/chrome_trace.h"

#include <fmt/format.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace tessera::profile {
namespace {

// As a string of JSON.
std::string quoted(const std::string& name) {
  return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* category(SpanKind kind) {
  switch (kind) {
    case SpanKind::kStep: return "step";
    case SpanKind::kPhase: return "phase";
    case SpanKind::kInput: return "input";
    case SpanKind::kKernel: return "kernel";
    case SpanKind::kRuntime: return "runtime";
    case SpanKind::kSave: return "checkpoint";
  }
  return "";
}

double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

class TraceWriter {
 public:
  void name(const char* what, int64_t process, int64_t thread, const std::string& name) {
    add(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process, thread, quoted(name)));
  }
  void event(const std::string& name, const char* kind, int64_t process, int64_t thread, int64_t begin, int64_t duration,
             const std::string& args = {}) {
    add(fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})", quoted(name), kind,
                    process, thread, microseconds(begin), microseconds(duration), args));
  }
  std::string finish() { return std::move(text_) + "\n]}\n"; }

 private:
  void add(const std::string& object) {
    if (std::exchange(any_, true)) text_ += ",";
    text_ += "\n" + object;
  }
  std::string text_ = R"({"displayTimeUnit":"ms","traceEvents":[)";
  bool any_ = false;
};

std::string arguments_of(const SpanRecord& span) {
  if (span.number == kNoNumber) return {};
  return fmt::format(R"(,"args":{{"{}":{}}})", span.kind == SpanKind::kStep ? "step" : "number", span.number);
}

}  // namespace

std::string to_chrome_trace(const Profile& profile, const std::vector<DevicePlane>& device) {
  TraceWriter out;
  int64_t process = 1;
  out.name("process_name", process, 0, "tessera on " + profile.host);
  for (const ThreadRecord& thread : profile.recording.threads) {
    out.name("thread_name", process, thread.id, thread.name);
    for (const SpanRecord& span : thread.spans) {
      out.event(span.name, category(span.kind), process, thread.id, span.begin - profile.recording.begin, span.end - span.begin,
                arguments_of(span));
    }
  }
  for (const DevicePlane& plane : device) {
    out.name("process_name", ++process, 0, plane.name);
    for (size_t i = 0; i < plane.lines.size(); ++i) {
      const auto thread = static_cast<int64_t>(i) + 1;
      out.name("thread_name", process, thread, plane.lines[i].name);
      for (const DeviceEvent& event : plane.lines[i].events) {
        out.event(event.name, "device", process, thread, event.begin, event.duration);
      }
    }
  }
  return out.finish();
}

std::string gzip(std::string_view text) {
  constexpr int kLevel = 6, kGzip = 15 + 16, kMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  TESSERA_CHECK(result == Z_STREAM_END && text.size() <= UINT32_MAX, "deflate: {}", result);
  return out;
}

}  // namespace tessera::profile
