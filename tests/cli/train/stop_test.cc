// Signals, readers that go away and files that never come: a run is saved and ends, or goes on quietly.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "cli/run_program.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Stop : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 12);
    write_images(folder_ / "val", 5);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }

  std::vector<std::string> command(const std::string& workdir, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"train", "tiny.toml", "--workdir", workdir};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::map<std::string, std::string> odd_files() const {
    return {{"LD_PRELOAD", testing::odd_files_path()}, {"ODD_FILES_STUCK", folder_ / "waits"}};
  }
  // Until a thread waits for the file that never comes.
  void await_stuck(RunningProgram& run) const {
    while (run.running() && !fs::exists(folder_ / "waits")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  Outcome shell(const std::string& script) const {
    const fs::path out = folder_ / "shell.out", err = folder_ / "shell.err";
    const std::string line = "cd '" + folder_.path().string() + "' && TESSERA_CACHE_DIR='" + testing::cache_path() +
                             "' TESSERA='" + testing::program_path() + "' bash -c '" + script + "' > '" + out.string() +
                             "' 2> '" + err.string() + "'";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  }
  std::string weights(const std::string& workdir) const {
    return read_file(folder_ / workdir / "checkpoints/step_000000006/state.safetensors");
  }

  TempFolder folder_;
};

TEST_F(Stop, ASignalDoesNotWaitForAFileOfTraining) {
  fs::rename(folder_ / "train/left/7.png", folder_ / "train/left/7_stuck.png");
  ASSERT_EQ(run_program(command("whole"), folder_.path()).exit, 0);
  for (const int signal : {SIGTERM, SIGINT}) {
    RunningProgram run(command("run"), folder_.path(), odd_files());
    await_stuck(run);
    run.send(signal);
    const Outcome end = run.wait();
    EXPECT_EQ(end.exit, signal == SIGTERM ? 75 : 130) << end.err;
    EXPECT_THAT(end.err, HasSubstr(signal == SIGTERM ? "stopped by SIGTERM after step" : "stopped by Ctrl-C after step"));
    fs::remove(folder_ / "waits");
  }
  EXPECT_EQ(run_program(command("run"), folder_.path()).exit, 0);
  EXPECT_EQ(weights("run"), weights("whole"));
}

TEST_F(Stop, ASignalDoesNotWaitForAFileOfAnEvaluation) {
  fs::rename(folder_ / "val/left/3.png", folder_ / "val/left/3_stuck.png");
  ASSERT_EQ(run_program(command("whole"), folder_.path()).exit, 0);
  RunningProgram run(command("run"), folder_.path(), odd_files());
  await_stuck(run);
  run.send(SIGTERM);
  const Outcome end = run.wait();
  EXPECT_EQ(end.exit, 75) << end.err;
  EXPECT_THAT(end.err, HasSubstr("stopped by SIGTERM after step 3 of 6"));
  EXPECT_EQ(run_program(command("run"), folder_.path()).exit, 0);
  EXPECT_EQ(weights("run"), weights("whole"));
}

// Before there is anything to save, a signal waits for nothing at all.
TEST_F(Stop, ASignalDoesNotWaitForAnIndexOfTheData) {
  write_file(folder_ / "stuck.tar", std::string(10240, '\0'));
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    RunningProgram run(command("run", {"data.source=wds(stuck.tar)"}), folder_.path(), odd_files());
    await_stuck(run);
    run.send(signal);
    const Outcome end = run.wait();
    EXPECT_EQ(end.exit, signal == SIGINT ? 130 : 75);
    EXPECT_THAT(end.err, HasSubstr("stopped before training began; the same command starts again"));
    fs::remove(folder_ / "waits");
  }
}

// The first save hangs. After a minute the run says so, and a signal then ends it without that save.
TEST_F(Stop, ASaveThatHangsIsNamedAndLeft) {
  auto environment = odd_files();
  environment["ODD_FILES_SYNC"] = "/state.safetensors";
  environment["ODD_FILES_CLOCK"] = "1";
  RunningProgram run(command("run", {"--stop-patience", "1"}), folder_.path(), environment);
  await_stuck(run);
  while (run.running() && run.err().find("has taken") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_THAT(run.err(), ContainsRegex("warning: writing `.*/state.safetensors` has taken [0-9]+ s so far"));
  EXPECT_TRUE(run.running());
  run.send(SIGTERM);
  const Outcome end = run.wait();
  EXPECT_EQ(end.exit, 3) << end.err;
  EXPECT_THAT(end.err,
              ContainsRegex("error: the run was stopped, and writing `.*/state.safetensors` has taken [0-9]+ s so far"));
  EXPECT_EQ(run_program(command("run"), folder_.path()).exit, 0);
}

// No later save makes up for it, so that it is an error, which says what the same command does.
TEST_F(Stop, ALastSaveThatFailsIsAnError) {
  auto environment = odd_files();
  environment["ODD_FILES_FULL"] = "/step_000000006.tmp";
  const Outcome end = run_program(command("run"), folder_.path(), environment);
  EXPECT_EQ(end.exit, 3) << end.err;
  EXPECT_THAT(end.err, ContainsRegex("error: the checkpoint of step 6 could not be saved: .*No space left on device"));
  EXPECT_THAT(end.err, ContainsRegex("the same command (goes on from step [1-5]|starts it again)"));
  EXPECT_EQ(run_program(command("run"), folder_.path()).exit, 0);
}

// The run is done and saved, and its plot hangs: the exit code is the signal's.
TEST_F(Stop, AFileThatHangsAfterTheLastSaveCostsNoStep) {
  auto environment = odd_files();
  environment["ODD_FILES_SYNC"] = "/plot.svg";
  RunningProgram run(command("run", {"--stop-patience", "1"}), folder_.path(), environment);
  await_stuck(run);
  run.send(SIGTERM);
  const Outcome end = run.wait();
  EXPECT_EQ(end.exit, 75) << end.err;
  EXPECT_THAT(end.err, ContainsRegex("error: the run was stopped, and writing `.*plot.svg.*, and no step is lost"));
  EXPECT_EQ(run_program(command("run"), folder_.path()).exit, 0);
}

// The run is done, and its report wants an image that does not come any more.
TEST_F(Stop, AFinishedRunDoesNotWaitForTheImagesOfItsReport) {
  fs::rename(folder_ / "val/left/3.png", folder_ / "val/left/3_late.png");
  for (const std::string workdir : {"told", "alone"}) {
    auto environment = odd_files();
    environment["ODD_FILES_AFTER"] = folder_ / (workdir + "/plot.svg");
    if (workdir == "alone") environment["ODD_FILES_CLOCK"] = "1";
    RunningProgram run(command(workdir), folder_.path(), environment);
    await_stuck(run);
    if (workdir == "told") run.send(SIGTERM);
    const Outcome end = run.wait();
    EXPECT_EQ(end.exit, 0) << end.err;
    EXPECT_THAT(end.err,
                ContainsRegex(workdir == "told" ? "no report was written: a signal came first; `tessera report` writes it"
                                                : "no report was written: reading `.*3_late.png` has taken [0-9]+ s so far"));
    EXPECT_FALSE(fs::exists(folder_ / workdir / "report/index.html"));
    fs::remove(folder_ / "waits");
  }
}

TEST_F(Stop, CtrlCEndsOtherCommandsThatWait) {
  ASSERT_EQ(run_program(command("run"), folder_.path()).exit, 0);
  fs::rename(folder_ / "val/left/3.png", folder_ / "val/left/3_stuck.png");
  const std::vector<std::string> commands[] = {
      {"eval", "tiny.toml", "--from", "run"}, {"predict", "--from", "run", "val"}, {"data", "check", "val"}};
  for (const std::vector<std::string>& args : commands) {
    SCOPED_TRACE(args[0]);
    RunningProgram run(args, folder_.path(), odd_files());
    await_stuck(run);
    run.send(SIGINT);
    EXPECT_EQ(run.wait().exit, 130);
    fs::remove(folder_ / "waits");
  }
}

TEST_F(Stop, SignalsOfTerminalsAndSchedulersSave) {
  for (const auto& [signal, name] : {std::pair{SIGHUP, "SIGHUP"}, std::pair{SIGXCPU, "SIGXCPU"}}) {
    SCOPED_TRACE(name);
    RunningProgram run(command(name, {"total=100000 epochs"}), folder_.path());
    while (run.running() && !fs::exists(folder_ / name / "metrics.jsonl"))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    run.send(signal);
    const Outcome end = run.wait();
    EXPECT_EQ(end.exit, 75) << end.err;
    EXPECT_THAT(end.err, HasSubstr(std::string("stopped by ") + name + " after step"));
    EXPECT_THAT(end.out, HasSubstr("checkpoint  "));
  }
}

TEST_F(Stop, NohupHolds) {
  const Outcome end = shell("trap \"\" HUP; \"$TESSERA\" train tiny.toml --workdir run & sleep 0.3; kill -HUP $!; wait $!");
  EXPECT_EQ(end.exit, 0) << end.err;
}

TEST_F(Stop, AReaderThatGoesAwayChangesNothing) {
  for (const char* reader : {"true", "head -n 1"}) {
    SCOPED_TRACE(reader);
    const Outcome end = shell(std::string("rm -rf run; \"$TESSERA\" train tiny.toml --workdir run 2>&1 | ") + reader +
                              "; exit ${PIPESTATUS[0]}");
    EXPECT_EQ(end.exit, 0);
    EXPECT_FALSE(weights("run").empty());
  }
}

TEST_F(Stop, AFileThatMayNotGrowIsAnErrorInWords) {
  // Blocks of 1024 bytes; a checkpoint is larger.
  const Outcome end = shell("ulimit -f 8; \"$TESSERA\" train tiny.toml --workdir run --cache-dir \"\"");
  EXPECT_EQ(end.exit, 4) << end.err;
  EXPECT_THAT(end.err,
              ContainsRegex("error: no checkpoint could be saved: files may have 8.* KiB at most .`ulimit -f`., and a "
                            "file of it has .*\nhelp: raise the limit before the program starts: `ulimit -f unlimited`"));
  EXPECT_FALSE(fs::exists(folder_ / "run/metrics.jsonl"));
  EXPECT_EQ(run_program(command("run"), folder_.path()).exit, 0);
}

TEST_F(Stop, PipesAndDevicesAreRefusedByName) {
  ASSERT_EQ(::mkfifo((folder_ / "train/left/pipe.png").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder_ / "train/right/zero.png");
  const Outcome check = run_program({"data", "check", "train"}, folder_.path());
  EXPECT_EQ(check.exit, 3);
  EXPECT_THAT(check.out, HasSubstr("left/pipe.png: a named pipe, not a regular file"));
  EXPECT_THAT(check.out, HasSubstr("right/zero.png: a device, not a regular file"));

  ASSERT_EQ(::mkfifo((folder_ / "shard.tar").c_str(), 0600), 0);
  for (const char* source : {"wds(shard.tar)", "wds(sh*.tar)", "tfrecord(/dev/zero, image=a, label=b)"}) {
    SCOPED_TRACE(source);
    const Outcome shards = run_program({"data", "check", source}, folder_.path());
    EXPECT_EQ(shards.exit, 3);
    EXPECT_THAT(shards.err, ContainsRegex("`(shard.tar|/dev/zero)` is a (named pipe|device), not a file"));
  }
}

// However few: either it works, or it is said which limit to raise. No file is called unreadable.
TEST_F(Stop, TooFewOpenFilesAreNoFaultOfTheData) {
  int ended = 0;
  for (int most = 4; most <= 14; ++most) {
    SCOPED_TRACE(most);
    const Outcome check = shell("ulimit -n " + std::to_string(most) + "; \"$TESSERA\" data check train");
    if (check.exit == 0 || check.exit == 127) continue;  // 127: too few for the system to load the program
    ++ended;
    EXPECT_EQ(check.exit, 4) << check.err;
    EXPECT_THAT(check.err, HasSubstr("ulimit -n"));
    EXPECT_THAT(check.out, Not(HasSubstr("unreadable")));
  }
  EXPECT_GT(ended, 0);
}

TEST_F(Stop, AReadThatFailsAtOnceIsTriedAgain) {
  fs::rename(folder_ / "train/left/7.png", folder_ / "train/left/7_flaky.png");
  ASSERT_EQ(run_program(command("whole"), folder_.path()).exit, 0);
  const Outcome flaky = run_program(command("flaky"), folder_.path(), odd_files());
  EXPECT_EQ(flaky.exit, 0);
  EXPECT_THAT(flaky.err, Not(HasSubstr("skipped")));
  EXPECT_EQ(weights("flaky"), weights("whole"));
}

TEST_F(Stop, WhatAnEvaluationSkipsIsInAFile) {
  write_file(folder_ / "val/left/bad.png", "no image");
  const Outcome train = run_program(command("run"), folder_.path());
  ASSERT_EQ(train.exit, 0) << train.err;
  EXPECT_THAT(train.err, HasSubstr("1 image of the evaluation could not be read and is left out of its scores; "
                                   "see run/evals/val_000000003.skipped.jsonl"));
  const Json line = Json::parse(read_file(folder_ / "run/evals/val_000000006.skipped.jsonl"));
  EXPECT_EQ(line, (Json{{"source", "val"},
                        {"id", "left/bad.png"},
                        {"reason", "not a JPEG, PNG, WebP, BMP, GIF or TIFF image (by its first bytes)"}}));
  const Outcome eval = run_program({"eval", "tiny.toml", "--from", "run", "--predictions", "said"}, folder_.path());
  EXPECT_EQ(eval.exit, 0);
  EXPECT_EQ(Json::parse(read_file(folder_ / "said/val.skipped.jsonl")), line);
}

TEST_F(Stop, MemoryAndThreadsThatAreRefusedAreNoBug) {
  // The stacks take what there is; who asks first when it is used up is up to the threads: the input, our own code, or the
  // plugin, which aborts, or faults as it clears away a program that it could not load.
  const Outcome threads = shell("ulimit -v 6000000; \"$TESSERA\" train tiny.toml --workdir run data.threads=1000");
  EXPECT_THAT(threads.exit, AnyOf(2, 4)) << threads.err;
  EXPECT_THAT(threads.err, ContainsRegex(threads.exit == 2 ? "the system refuses thread [0-9]+ of the 1008 that the input wants"
                                                           : "the memory that this process may take is used up"));
  EXPECT_THAT(threads.err, HasSubstr("`ulimit -v`"));
  EXPECT_THAT(threads.err, Not(HasSubstr("bug of the program")));
  // Too little to load the plugin, for the plugin's threads, and for a compilation or a step.
  for (const char* most : {"300000", "550000", "800000"}) {
    SCOPED_TRACE(most);
    const Outcome little =
        shell(std::string("ulimit -v ") + most + "; \"$TESSERA\" train tiny.toml --workdir little --cache-dir \"\"");
    EXPECT_THAT(little.exit, AnyOf(0, 2, 4)) << little.err;
    EXPECT_TRUE(little.exit == 0 || little.err.find("`ulimit -v`") != std::string::npos) << little.err;
    EXPECT_THAT(little.err, Not(HasSubstr("bug of the program")));
  }
  const Outcome many = run_program(command("run", {"data.prefetch=1000000000"}), folder_.path());
  EXPECT_EQ(many.exit, 2);
  EXPECT_THAT(many.err, HasSubstr("`data.prefetch` must be 1 to 1024, and is 1000000000"));
  const Outcome wide = run_program(command("run", {"data.threads=1000000000"}), folder_.path());
  EXPECT_EQ(wide.exit, 2);
  EXPECT_THAT(wide.err, HasSubstr("`data.threads` must be 0 to 1024, and is 1000000000"));
}

}  // namespace
}  // namespace tessera::cli
