#include "base/system/spans.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "base/system/innermost_phase.h"

namespace tessera {
namespace {

constexpr int64_t kChunk = 256;  // spans that a thread takes room for at once

// Of one thread. What follows the mutex is under it: the thread writes, and who ends a recording reads.
struct Buffer {
  std::mutex mutex;
  std::string name;
  int64_t id = 0;
  uint32_t recording = 0;  // that `spans` are of
  int64_t room = 0;
  std::vector<SpanRecord> spans;
  std::vector<SpanRecord> open;  // phases, the outermost first
  bool ended = false;            // the thread has
};

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Buffer>> buffers;
  uint32_t recordings = 0;
  std::atomic<int64_t> begin{0}, left{0}, lost{0};
};

// Never freed: a thread that was left behind may still write when the program ends.
Registry& registry() {
  static auto& the = *new Registry;
  return the;
}

// What is not needed any more goes at once, unless a recording may want it.
void forget_ended(Registry& all) {
  std::erase_if(all.buffers, [](const std::shared_ptr<Buffer>& buffer) {
    const std::lock_guard lock(buffer->mutex);
    return buffer->ended;
  });
}

std::string system_name() {
  std::array<char, 32> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

// Registers the thread's buffer, and marks its end.
class Own {
 public:
  Own() {
    buffer_->name = system_name();
    buffer_->id = gettid();
    const std::lock_guard lock(registry().mutex);
    registry().buffers.push_back(buffer_);
  }
  ~Own() {
    {
      const std::lock_guard lock(buffer_->mutex);
      buffer_->ended = true;
    }
    const std::lock_guard lock(registry().mutex);
    if (spans::recording.load() == 0) forget_ended(registry());
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  const std::shared_ptr<Buffer>& get() const { return buffer_; }

 private:
  std::shared_ptr<Buffer> buffer_ = std::make_shared<Buffer>();
};

const std::shared_ptr<Buffer>& shared_own_buffer() {
  thread_local Own own;
  return own.get();
}
Buffer& own_buffer() { return *shared_own_buffer(); }

// Under the buffer's lock.
void put(Buffer& buffer, uint32_t recording, const SpanRecord& span) {
  if (recording == 0 || spans::recording.load() != recording) return;
  if (buffer.recording != recording) {
    buffer.recording = recording;
    buffer.room = 0;
    buffer.spans.clear();
  }
  if (buffer.room == 0) {
    const int64_t before = registry().left.fetch_sub(kChunk);
    buffer.room = std::clamp<int64_t>(before, 0, kChunk);
  }
  if (buffer.room == 0) {
    ++registry().lost;
    return;
  }
  --buffer.room;
  buffer.spans.push_back(span);
}

}  // namespace

const char* lasting_name(std::string_view name) {
  static auto& mutex = *new std::mutex;
  static auto& names = *new std::set<std::string, std::less<>>;
  const std::lock_guard lock(mutex);
  const auto found = names.find(name);
  return (found != names.end() ? found : names.emplace(name).first)->c_str();
}

int64_t span_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void name_thread(std::string name) {
  constexpr size_t kMaxBytes = 15;  // bytes that the system takes
  // The first thread's name is the program's, by which others find it.
  if (gettid() != getpid()) pthread_setname_np(pthread_self(), name.substr(0, kMaxBytes).c_str());
  Buffer& buffer = own_buffer();
  const std::lock_guard lock(buffer.mutex);
  buffer.name = std::move(name);
}

// Where the system has no memory for it, a profile has a gap, and the program goes on.
void spans::add(uint32_t of_recording, const SpanRecord& span) noexcept {
  try {
    Buffer& buffer = own_buffer();
    const std::lock_guard lock(buffer.mutex);
    put(buffer, of_recording, span);
  } catch (const std::bad_alloc&) {
    ++registry().lost;
  }
}

bool spans::open_phase(const char* name, int64_t number, SpanKind kind) noexcept {
  try {
    Buffer& buffer = own_buffer();
    const std::lock_guard lock(buffer.mutex);
    buffer.open.push_back({name, span_clock(), 0, number, kind});
    return true;
  } catch (const std::bad_alloc&) {
    ++registry().lost;
    return false;
  }
}

void spans::close_phase() noexcept {
  try {
    Buffer& buffer = own_buffer();
    const std::lock_guard lock(buffer.mutex);
    SpanRecord span = buffer.open.back();
    buffer.open.pop_back();
    const uint32_t current = recording.load();
    if (current == 0) return;
    span.begin = std::max(span.begin, registry().begin.load());
    span.end = span_clock();
    put(buffer, current, span);
  } catch (const std::bad_alloc&) {
    ++registry().lost;
  }
}

std::function<std::optional<SpanRecord>()> innermost_phase_of_this_thread() {
  return [buffer = shared_own_buffer()] {
    const std::lock_guard lock(buffer->mutex);
    return buffer->open.empty() ? std::nullopt : std::optional(buffer->open.back());
  };
}

bool start_recording(int64_t most) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (spans::recording.load() != 0) return false;
  all.left = most;
  all.lost = 0;
  all.begin = span_clock();
  spans::recording.store(++all.recordings);
  return true;
}

Recording stop_recording() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  Recording out{.begin = all.begin, .end = span_clock(), .threads = {}, .lost = 0};
  const uint32_t current = spans::recording.exchange(0);
  for (const std::shared_ptr<Buffer>& buffer : all.buffers) {
    const std::lock_guard buffer_lock(buffer->mutex);
    ThreadRecord thread{buffer->name, buffer->id, {}};
    if (buffer->recording == current) thread.spans = std::exchange(buffer->spans, {});
    for (auto open = buffer->open.rbegin(); open != buffer->open.rend(); ++open) {
      if (open->begin >= out.end) continue;
      thread.spans.push_back(*open);
      thread.spans.back().begin = std::max(open->begin, out.begin);
      thread.spans.back().end = out.end;
    }
    if (!thread.spans.empty()) out.threads.push_back(std::move(thread));
  }
  out.lost = all.lost;
  forget_ended(all);
  return out;
}

}  // namespace tessera
