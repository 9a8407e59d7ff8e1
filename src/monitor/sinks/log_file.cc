#include "monitor/sinks/log_file.h"

#include <fmt/chrono.h>

#include <cmath>
#include <ctime>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/line_listener.h"
#include "base/text/text.h"
#include "monitor/line_log.h"
#include "monitor/sinks/sink_thread.h"
#include "monitor/sinks/sinks.h"

namespace tessera::monitor {
namespace {

// "2026-11-23T06:42:00.123Z", of seconds since 1970.
std::string utc_time(double time) {
  const auto milliseconds = static_cast<int64_t>(std::floor(time * 1000));
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(milliseconds / 1000)),
                     milliseconds % 1000);
}

// Takes records of Text alone.
class LogSink final : public Sink {
 public:
  LogSink(std::string path, store::FileSystem& files) : path_(std::move(path)), files_(files) {}

  void begin(const RunStart&) override { log_.emplace(path_, files_); }
  void write(const Record& record) override {
    const std::string time = utc_time(record.time) + " ";
    std::vector<std::string> lines = split(std::get<Text>(record.content).markdown, '\n');
    for (std::string& line : lines) line.insert(0, time);
    log_->add(join(lines, "\n"));
  }
  const char* when_it_fails() const override { return "the run goes on, and the terminal has its lines"; }

 private:
  const std::string path_;
  store::FileSystem& files_;
  std::optional<LineLog> log_;
};

}  // namespace

// The mutex is recursive: when the queue is full, the warning about it is a line of this log as well.
struct LogFile::Lines {
  std::recursive_mutex mutex;
  std::vector<std::shared_ptr<const Record>> before;  // there was a file
  std::unique_ptr<SinkThread> thread;
  bool finished = false;

  void add(const std::string& line) {
    auto record = std::make_shared<const Record>(Record{0, time_now(), Text{"log", line}});
    const std::lock_guard lock(mutex);
    if (finished) return;
    if (thread) return thread->put(std::move(record));
    before.push_back(std::move(record));
  }

  // The thread may have something to say meanwhile, which must not wait for this.
  void finish(std::chrono::milliseconds patience) {
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(finished, true)) return;
    }
    if (thread) thread->finish(patience);
  }
};

LogFile::LogFile(const std::string& first_line, store::FileSystem& files) : lines_(std::make_shared<Lines>()), files_(files) {
  lines_->add(first_line);
  set_line_listener([lines = lines_](const std::string& line) { lines->add(line); },
                    [lines = lines_](std::chrono::milliseconds patience) { lines->finish(patience); });
}

LogFile::~LogFile() { finish(); }

void LogFile::open(const std::string& path) {
  const std::lock_guard lock(lines_->mutex);
  if (lines_->thread || lines_->finished) return;
  lines_->thread = std::make_unique<SinkThread>(store::last_part(path), std::make_unique<LogSink>(path, files_), RunStart{});
  for (auto& record : std::exchange(lines_->before, {})) lines_->thread->put(std::move(record));
}

void LogFile::add(const std::string& line) { lines_->add(line); }

void LogFile::finish(std::chrono::milliseconds patience) {
  {
    const std::lock_guard lock(lines_->mutex);
    if (lines_->finished) return;
  }
  set_line_listener(nullptr);
  lines_->finish(patience);
}

}  // namespace tessera::monitor
