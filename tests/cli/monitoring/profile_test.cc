// tessera profile, of a run that trains.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cli/run_program.h"
#include "support/xprof.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Profile : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 12);
    write_images(folder_ / "val", 5);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  Outcome profile(const std::vector<std::string>& words) const {
    std::vector<std::string> args{"profile"};
    args.insert(args.end(), words.begin(), words.end());
    return run_program(args, folder_.path());
  }

  TempFolder folder_;
};

TEST_F(Profile, OfARunThatTrains) {
  RunningProgram run({"train", "tiny.toml", "--workdir", "runs/tiny", "total=100000 epochs", "monitor.profile=none"},
                     folder_.path());
  // Wait for the first step: while the run compiles, its loop does nothing that a profile could show.
  std::error_code missing;
  while (run.running() && !(fs::file_size(folder_ / "runs/tiny/metrics.jsonl", missing) > 0 && !missing)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Outcome asked = profile({"runs/tiny", "--duration", "400ms"});
  EXPECT_EQ(asked.exit, 0) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("(0.4 s, as asked)"));
  EXPECT_THAT(asked.out, HasSubstr("training loop"));
  EXPECT_THAT(asked.out, HasSubstr("decode"));
  EXPECT_THAT(asked.out, HasSubstr("xplane      runs/tiny/plugins/profile/"));
  EXPECT_TRUE(run.running());
  run.send(SIGINT);
  EXPECT_EQ(run.wait().exit, 130);
#ifdef TESSERA_HAS_XPROF
  const Json read = testing::read_profiles(folder_ / "runs");
  ASSERT_EQ(read["runs"].size(), 1u);
  EXPECT_EQ(read["runs"][0].get<std::string>().find("tiny/"), 0u);
  const Json& found = read["profiles"].front();
  EXPECT_TRUE(found["planes"]["/host:CPU"].contains("training loop"));
  EXPECT_TRUE(found["planes"]["/host:CPU"].contains("input 1"));
  EXPECT_THAT(found["tools"]["trace_viewer"].get<std::string>(), HasSubstr("wait for the device"));
  EXPECT_THAT(found["tools"]["overview_page"].get<std::string>(), HasSubstr("Step step "));
#endif
}

TEST_F(Profile, OfTheFirstStepsSaysWhichLayersTheirTimeWentTo) {
  const Outcome run = run_program({"train", "tiny.toml", "--workdir", "runs/host", "total=2000 steps",
                                   "eval.val.every=2000 steps", "checkpoint.every=2000 steps", "--profile-host", "--no-report"},
                                  folder_.path());
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("(from step 4 on)"));
  EXPECT_THAT(run.err, HasSubstr("processor time of a step: "));
  EXPECT_THAT(run.err, HasSubstr("  model/blocks/"));
  EXPECT_THAT(run.err, HasSubstr("by operation"));
}

TEST_F(Profile, SaysWhyThereIsNone) {
  ASSERT_EQ(run_program({"train", "tiny.toml", "--workdir", "done", "--no-report"}, folder_.path()).exit, 0);
  const Outcome finished = profile({"done"});
  EXPECT_EQ(finished.exit, 2);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("done is not training now (no control socket)"), HasSubstr("--profile-host")));
  const Outcome nowhere = profile({"nowhere"});
  EXPECT_EQ(nowhere.exit, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("there is no run at `nowhere`"));
  const Outcome file = profile({"tiny.toml"});
  EXPECT_EQ(file.exit, 2);
  EXPECT_THAT(file.err, HasSubstr("`tiny.toml` is not the directory of a run"));
  const Outcome images = profile({"train"});
  EXPECT_EQ(images.exit, 2);
  EXPECT_THAT(images.err, HasSubstr("`train` is not the directory of a run"));
  const Outcome duration = profile({"done", "--duration", "3 steps"});
  EXPECT_EQ(duration.exit, 2);
  EXPECT_THAT(duration.err, HasSubstr("`3 steps` is no duration of a profile"));
  EXPECT_EQ(profile({}).exit, 2);
}

}  // namespace
}  // namespace tessera::cli
