#include "base/system/spans.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/system/innermost_phase.h"

namespace tessera {
namespace {

// The spans of the thread of that name; none where it has none.
std::vector<SpanRecord> spans_of(const Recording& recording, const std::string& thread) {
  for (const ThreadRecord& record : recording.threads) {
    if (record.name == thread) return record.spans;
  }
  return {};
}

TEST(ThreadNames, AreTheSystemsButForTheFirstThread) {
  const auto name = [] {
    char out[16] = {};
    pthread_getname_np(pthread_self(), out, sizeof(out));
    return std::string(out);
  };
  const std::string program = name();
  name_thread("training loop");
  EXPECT_EQ(name(), program);
  std::string other;
  std::thread([&] {
    name_thread("a name of more than 15 bytes");
    other = name();
  }).join();
  EXPECT_EQ(other, "a name of more ");
}

TEST(Spans, AreRecordedWhileARecordingGoesOn) {
  name_thread("main");
  { const Span before(SpanKind::kKernel, "before"); }
  ASSERT_TRUE(start_recording());
  {
    const Span outer(SpanKind::kRuntime, "outer", 7);
    const Span inner(SpanKind::kKernel, "inner");
  }
  const Recording recording = stop_recording();
  { const Span after(SpanKind::kKernel, "after"); }
  const std::vector<SpanRecord> spans = spans_of(recording, "main");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_STREQ(spans[0].name, "inner");
  EXPECT_EQ(spans[0].number, kNoNumber);
  EXPECT_STREQ(spans[1].name, "outer");
  EXPECT_EQ(spans[1].number, 7);
  EXPECT_EQ(spans[1].kind, SpanKind::kRuntime);
  EXPECT_LE(recording.begin, spans[1].begin);
  EXPECT_LE(spans[1].begin, spans[0].begin);
  EXPECT_LE(spans[0].end, spans[1].end);
  EXPECT_LE(spans[1].end, recording.end);
  EXPECT_EQ(recording.lost, 0);
  ASSERT_TRUE(start_recording());
  EXPECT_TRUE(stop_recording().threads.empty());
}

TEST(Spans, OneRecordingAtATime) {
  ASSERT_TRUE(start_recording());
  EXPECT_FALSE(start_recording());
  stop_recording();
}

// What a profile is for: what a thread waits for when it began before and ends after.
TEST(Spans, PhasesAreCutAtBothEnds) {
  name_thread("main");
  Recording recording;
  {
    const PhaseSpan outer("outer", 3, SpanKind::kStep);
    const PhaseSpan inner("inner");
    const Span uncut(SpanKind::kKernel, "a span is left out");
    ASSERT_TRUE(start_recording());
    recording = stop_recording();
  }
  const std::vector<SpanRecord> spans = spans_of(recording, "main");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_STREQ(spans[0].name, "inner");
  EXPECT_STREQ(spans[1].name, "outer");
  EXPECT_EQ(spans[1].number, 3);
  for (const SpanRecord& span : spans) {
    EXPECT_EQ(span.begin, recording.begin);
    EXPECT_EQ(span.end, recording.end);
  }
}

TEST(Spans, MemoryIsBounded) {
  name_thread("main");
  ASSERT_TRUE(start_recording(1000));
  for (int i = 0; i < 1500; ++i) const Span span(SpanKind::kInput, "many", i);
  const Recording recording = stop_recording();
  EXPECT_EQ(spans_of(recording, "main").size(), 1000u);
  EXPECT_EQ(recording.lost, 500);
}

TEST(Spans, ThreadsThatEndedAreThere) {
  ASSERT_TRUE(start_recording());
  for (const char* name : {"first", "second"}) {
    std::thread([name] {
      name_thread(name);
      const Span span(SpanKind::kInput, "work");
    }).join();
  }
  const Recording recording = stop_recording();
  EXPECT_EQ(spans_of(recording, "first").size(), 1u);
  EXPECT_EQ(spans_of(recording, "second").size(), 1u);
  ASSERT_TRUE(start_recording());
  EXPECT_TRUE(stop_recording().threads.empty());
}

// Recordings begin and end while threads record: nothing of one comes into another.
TEST(Spans, RecordingsOfBusyThreadsDoNotMix) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const PhaseSpan phase("phase");
        const Span span(SpanKind::kKernel, "kernel");
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(start_recording());
    const Recording recording = stop_recording();
    for (const ThreadRecord& thread : recording.threads) {
      for (const SpanRecord& span : thread.spans) {
        EXPECT_GE(span.begin, recording.begin);
        EXPECT_LE(span.begin, span.end);
      }
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(InnermostPhase, IsSeenByOtherThreads) {
  const auto phase = innermost_phase_of_this_thread();
  std::optional<SpanRecord> none, outer, inner, after;
  const auto look = [&](std::optional<SpanRecord>& seen) { std::thread([&] { seen = phase(); }).join(); };
  look(none);
  {
    const PhaseSpan outside("outer", 3);
    {
      const PhaseSpan inside("inner");
      look(inner);
    }
    look(outer);
  }
  look(after);
  EXPECT_FALSE(none);
  ASSERT_TRUE(inner && outer);
  EXPECT_STREQ(inner->name, "inner");
  EXPECT_STREQ(outer->name, "outer");
  EXPECT_EQ(outer->number, 3);
  EXPECT_LE(outer->begin, inner->begin);
  EXPECT_FALSE(after);
}

TEST(Spans, NamesThatLastAreOne) {
  const std::string name = "eval/val";
  EXPECT_EQ(lasting_name(name), lasting_name("eval/val"));
  EXPECT_STREQ(lasting_name(name), "eval/val");
}

}  // namespace
}  // namespace tessera
