#include "base/system/file_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

namespace tessera {
namespace {

using std::chrono::milliseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A thread that is at a call until the end of this.
class Waiting {
 public:
  Waiting(const char* what, std::string path, bool left_out = false)
      : thread_([this, what, path = std::move(path), left_out] {
          if (left_out) leave_out_file_calls();
          const FileCall call(what, path);
          begun_.set_value();
          end_.get_future().wait();
        }) {
    begun_.get_future().wait();
  }
  ~Waiting() {
    end_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> begun_, end_;
  std::thread thread_;
};

TEST(FileCall, TheSlowestIsNamed) {
  EXPECT_FALSE(slow_file_call(0));
  {
    const Waiting first("writing", "run/metrics.jsonl");
    std::this_thread::sleep_for(milliseconds(60));
    const Waiting second("reading", "shard.tar");
    const auto slow = slow_file_call(0.03);
    ASSERT_TRUE(slow);
    EXPECT_EQ(slow->what, "writing");
    EXPECT_EQ(slow->path, "run/metrics.jsonl");
    EXPECT_THAT(text_of(*slow), HasSubstr("writing `run/metrics.jsonl` has taken 0 s so far"));
    EXPECT_EQ(slow_file_call(0.03)->id, slow->id);
    EXPECT_FALSE(slow_file_call(100));
  }
  EXPECT_FALSE(slow_file_call(0)) << "both have ended";
}

TEST(FileCall, OneWithinAnotherIsNamedUntilItEnds) {
  const std::string outer = "outer", inner = "inner";
  const FileCall call("listing", outer);
  {
    const FileCall within("reading", inner);
    EXPECT_EQ(slow_file_call(0)->path, "inner");
  }
  EXPECT_EQ(slow_file_call(0)->path, "outer");
}

TEST(FileCall, ThoseNobodyWaitsForAreLeftOut) {
  const Waiting sink("writing", "tb/events", /*left_out=*/true);
  EXPECT_FALSE(slow_file_call(0));
}

TEST(FileWatch, TellsOnceOfEachCallThatTakesLong) {
  ::testing::internal::CaptureStderr();
  {
    const FileWatch watch(/*patience_seconds=*/0.05);
    {
      const Waiting call("writing", "run/state.safetensors");
      std::this_thread::sleep_for(milliseconds(150));
    }
    const Waiting quick("reading", "quick.json");
    std::this_thread::sleep_for(milliseconds(10));
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said,
              ContainsRegex("^warning: writing `run/state.safetensors` has taken 0 s so far\nhelp: see whether the disk"));
  EXPECT_EQ(said.find("warning", 1), std::string::npos) << said;
}

}  // namespace
}  // namespace tessera
