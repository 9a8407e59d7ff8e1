#pragma once
// What threads do and when, recorded while somebody profiles the program (src/monitor/profile). A Span costs one relaxed load while
// nobody does. It also says what a thread is at, for samples of its processor time (base/system/cpu_samples.h).

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class SpanKind : uint8_t {
  kStep,     // one step of training, as the loop sees it
  kPhase,    // of a loop: all of its time, one after the other
  kInput,    // a stage of the input
  kKernel,   // a kernel of the host's processor
  kRuntime,  // a call of the plugin
  kSave      // of a checkpoint's writing
};

inline constexpr int64_t kNoNumber = INT64_MIN;

// One stretch of a thread's time. Names live as long as the program.
struct SpanRecord {
  const char* name;
  int64_t begin, end;  // nanoseconds of span_clock()
  int64_t number;      // a step, a batch; or kNoNumber
  SpanKind kind;
};

// What a thread is at: the name of its innermost Span, and the part of the model that is for. Both live as long as the program; null:
// unknown.
struct Work {
  const char* name = nullptr;
  const char* where = nullptr;
};
// Of this thread, while a recording goes on.
inline thread_local constinit Work current_work;

// Until its end, the thread is at `work`: for what other threads of a pool do for one that has a Span.
class WorkScope {
 public:
  explicit WorkScope(const Work& work) : before_(current_work) { current_work = work; }
  ~WorkScope() { current_work = before_; }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  Work before_;
};

// A copy that lives as long as the program, the same for the same text. For the few names that are put together at run time.
const char* lasting_name(std::string_view name);
// Nanoseconds of a clock that only goes forward.
int64_t span_clock();
// What the calling thread is called in recordings, and by the system (top -H) unless it is the program's first thread.
void name_thread(std::string name);

namespace spans {
// The recording under way, counted from 1; 0: none.
inline std::atomic<uint32_t> recording{0};
void add(uint32_t of_recording, const SpanRecord& span) noexcept;
bool open_phase(const char* name, int64_t number, SpanKind kind) noexcept;
void close_phase() noexcept;
}  // namespace spans

// From its construction to its destruction, which are on one thread. Only where both fall into the same recording.
class Span {
 public:
  // `where`: the part of the model that it is for, where one is known.
  Span(SpanKind kind, const char* name, int64_t number = kNoNumber, const char* where = nullptr)
      : recording_(spans::recording.load(std::memory_order_relaxed)) {
    if (recording_ == 0) return;
    span_ = {name, span_clock(), 0, number, kind};
    before_ = current_work;
    if (kind != SpanKind::kRuntime) current_work = {name, where};  // what a plugin does in its calls has names of its own
  }
  ~Span() {
    if (recording_ == 0) return;
    current_work = before_;
    span_.end = span_clock();
    spans::add(recording_, span_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  uint32_t recording_;
  SpanRecord span_;  // these two only while recorded
  Work before_;
};

// What may take long: recorded too where the recording begins or ends meanwhile, so that a profile shows what a thread waits
// for. Some 100 ns, also while nobody profiles.
class PhaseSpan {
 public:
  explicit PhaseSpan(const char* name, int64_t number = kNoNumber, SpanKind kind = SpanKind::kPhase)
      : open_(spans::open_phase(name, number, kind)) {}
  ~PhaseSpan() {
    if (open_) spans::close_phase();
  }
  PhaseSpan(const PhaseSpan&) = delete;
  PhaseSpan& operator=(const PhaseSpan&) = delete;

 private:
  bool open_;
};

// The recording of one thread, in the order in which spans ended.
struct ThreadRecord {
  std::string name;
  int64_t id = 0;  // the system's
  std::vector<SpanRecord> spans;
};
struct Recording {
  int64_t begin = 0, end = 0;  // span_clock()
  std::vector<ThreadRecord> threads;
  int64_t lost = 0;  // spans that found no room
};

// One recording at a time: start_recording says false when one is under way. At most `most` spans are kept, of 40 bytes each.
bool start_recording(int64_t most = 1'000'000);
Recording stop_recording();

}  // namespace tessera
