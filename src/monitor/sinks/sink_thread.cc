#include "monitor/sinks/sink_thread.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/system/background_thread.h"
#include "base/system/file_calls.h"
#include "base/system/spans.h"

namespace tessera::monitor {

// Members before the mutex belong to the thread; it guards the others.
struct SinkThread::Work {
  std::string name, comfort;  // the warnings' beginning and end
  std::unique_ptr<Sink> sink;
  RunStart start;
  SinkLimits limits;
  bool begun = false;

  std::mutex mutex;
  std::condition_variable more, done;
  std::deque<std::shared_ptr<const Record>> queue;
  size_t queued_bytes = 0;
  int64_t put = 0, lost = 0;
  bool warned = false;
  bool ending = false, ended = false, finished = false;

  void run();
  bool attempt(const std::function<void()>& body);
  void warn(const std::string& why);
  void write(const Record& record);
  void begin();
};

namespace {

// The least that the system has: nobody waits for a sink but the end of the run, when the processors have nothing else to do.
constexpr int kNice = 19;
constexpr int kMaxPatiences = 6;

std::string reason_of(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known ? known->message() : error.what();
}

}  // namespace

// Once.
void SinkThread::Work::warn(const std::string& why) {
  {
    const std::lock_guard lock(mutex);
    if (std::exchange(warned, true)) return;
  }
  log_warning(fmt::format("{}: {}; {}", name, why, comfort));
}

bool SinkThread::Work::attempt(const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    warn(reason_of(error));
    return false;
  }
}

void SinkThread::Work::begin() {
  if (begun) return;
  sink->begin(start);
  begun = true;
}

void SinkThread::Work::write(const Record& record) {
  const bool written = attempt([&] {
    begin();
    sink->write(record);
  });
  // It counts as waiting until now.
  const std::lock_guard lock(mutex);
  if (!written) ++lost;
  queued_bytes -= record.bytes();
  queue.pop_front();
}

void SinkThread::Work::run() {
  name_thread(name);
  leave_out_file_calls();  // nobody waits for them
  lower_priority(kNice);
  const WorkScope at({lasting_name(name), "monitoring"});
  attempt([this] { begin(); });
  for (;;) {
    std::shared_ptr<const Record> record;
    {
      std::unique_lock lock(mutex);
      more.wait(lock, [this] { return ending || !queue.empty(); });
      if (queue.empty()) break;
      record = queue.front();
    }
    write(*record);
  }
  sink.reset();
  const std::lock_guard lock(mutex);
  ended = true;
  done.notify_all();
}

SinkThread::SinkThread(std::string name, std::unique_ptr<Sink> sink, RunStart start, SinkLimits limits)
    : work_(std::make_shared<Work>()) {
  work_->name = std::move(name);
  work_->comfort = sink->when_it_fails();
  work_->sink = std::move(sink);
  work_->start = std::move(start);
  work_->limits = limits;
  try {
    thread_ = std::thread([work = work_] { work->run(); });
  } catch (const std::system_error& error) {
    work_->ended = true;
    work_->warn(fmt::format("the system has no thread for it: {}", error.code().message()));
  }
}

SinkThread::~SinkThread() { finish(); }

void SinkThread::put(std::shared_ptr<const Record> record) {
  const size_t bytes = record->bytes();
  {
    const std::lock_guard lock(work_->mutex);
    ++work_->put;
    const bool room = work_->queue.size() < work_->limits.records && work_->queued_bytes + bytes <= work_->limits.bytes;
    if (room && !work_->ended) {
      work_->queue.push_back(std::move(record));
      work_->queued_bytes += bytes;
      work_->more.notify_one();
      return;
    }
    ++work_->lost;
  }
  work_->warn("it writes more slowly than there is to write, and what its queue has no room for is left out");
}

void SinkThread::finish(std::chrono::milliseconds patience) {
  int64_t lost = 0, put = 0;
  bool ended = false;
  {
    std::unique_lock lock(work_->mutex);
    if (std::exchange(work_->finished, true)) return;
    work_->ending = true;
    work_->more.notify_one();
    // A thread of the lowest priority gets on slowly where other programs keep the processors busy.
    size_t left = work_->queue.size() + 1;
    for (int i = 0; i < kMaxPatiences && !ended && work_->queue.size() < left; ++i) {
      left = work_->queue.size();
      ended = work_->done.wait_for(lock, patience, [this] { return work_->ended; });
    }
    put = work_->put;
    lost = work_->lost + static_cast<int64_t>(work_->queue.size());
  }
  if (thread_.joinable()) ended ? thread_.join() : thread_.detach();
  if (lost > 0) log_warning(fmt::format("{}: {} of {} records are not written", work_->name, lost, put));
}

int64_t SinkThread::lost() const {
  const std::lock_guard lock(work_->mutex);
  return work_->lost;
}

}  // namespace tessera::monitor
