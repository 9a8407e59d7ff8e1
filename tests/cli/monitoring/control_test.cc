// What is asked of a real run through its control socket.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cli/run_program.h"
#include "train/control/control_socket.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using OrderedJson = nlohmann::ordered_json;

class Control : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 12);
    write_images(folder_ / "val", 5);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"train", "tiny.toml", "--workdir", "run", "--no-report"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  OrderedJson ask(const OrderedJson& request) const { return train::ask_run(folder_ / "run", request); }
  void await(RunningProgram& run, const std::string& file) const {
    while (run.running() && !fs::exists(folder_ / file)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(run.running()) << run.err();
  }
  std::string weights(const std::string& workdir) const {
    return read_file(folder_ / workdir / "checkpoints/step_000000006/state.safetensors");
  }

  TempFolder folder_;
};

TEST_F(Control, ARunThatTrainsSavesAndStopsWhenAsked) {
  RunningProgram run(command({"total=100000 epochs", "checkpoint.every=100000 epochs"}), folder_.path());
  await(run, "run/metrics.jsonl");
  const OrderedJson saved = ask({{"do", "checkpoint"}});
  EXPECT_TRUE(fs::exists(folder_ / "run" / saved["path"].get<std::string>() / "COMMIT")) << saved;
  EXPECT_EQ(saved["path"], fmt::format("checkpoints/step_{:09}", saved["step"].get<int64_t>()));
  EXPECT_TRUE(run.running());
  EXPECT_EQ(ask({{"do", "stop"}}), (OrderedJson{{"ok", true}}));
  const Outcome end = run.wait();
  EXPECT_EQ(end.exit, 130) << end.err;
  EXPECT_THAT(end.err, HasSubstr("stopped by a request after step"));
  const Json facts = Json::parse(read_file(folder_ / "run/run.json"));
  EXPECT_EQ(facts["state"], "stopped");
  EXPECT_EQ(facts["message"], "a request");
  EXPECT_FALSE(fs::exists(folder_ / "run/control.sock"));
}

// What is asked is done although the next batch never comes, and changes nothing of what the run computes.
TEST_F(Control, ARunThatWaitsForAFileSavesAndStopsWhenAsked) {
  fs::rename(folder_ / "train/left/7.png", folder_ / "train/left/7_stuck.png");
  ASSERT_EQ(run_program({"train", "tiny.toml", "--workdir", "whole", "--no-report"}, folder_.path()).exit, 0);
  RunningProgram run(command(), folder_.path(),
                     {{"LD_PRELOAD", testing::odd_files_path()}, {"ODD_FILES_STUCK", folder_ / "waits"}});
  await(run, "waits");
  const OrderedJson first = ask({{"do", "checkpoint"}});
  EXPECT_TRUE(fs::exists(folder_ / "run" / first["path"].get<std::string>() / "COMMIT")) << first;
  EXPECT_GE(ask({{"do", "checkpoint"}})["step"], first["step"]);
  EXPECT_EQ(ask({{"do", "stop"}}), (OrderedJson{{"ok", true}}));
  EXPECT_EQ(run.wait().exit, 130);
  EXPECT_EQ(run_program(command(), folder_.path()).exit, 0);
  EXPECT_EQ(weights("run"), weights("whole"));
}

TEST_F(Control, TheSocketOfAKilledRunIsReplaced) {
  {
    RunningProgram run(command({"total=100000 epochs"}), folder_.path());
    await(run, "run/metrics.jsonl");
    run.send(SIGKILL);
    run.wait();
  }
  EXPECT_TRUE(fs::exists(folder_ / "run/control.sock"));
  EXPECT_THROW(ask({{"do", "stop"}}), Error);
  EXPECT_EQ(run_program(command(), folder_.path()).exit, 0);
  EXPECT_FALSE(fs::exists(folder_ / "run/control.sock"));
}

}  // namespace
}  // namespace tessera::cli
