// A run that is killed or stopped anywhere ends, once it is started again, with the bytes of one that never was.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "base/rng.h"
#include "cli/run_program.h"
#include "support/clock_keys.h"
#include "support/tensorboard.h"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;

// metrics.jsonl without what the clock decides.
std::vector<Json> timeless_metrics(const fs::path& workdir) {
  std::vector<Json> lines;
  std::istringstream text(read_file(workdir / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    Json value = Json::parse(line);
    testing::erase_clock_keys(value);
    lines.push_back(std::move(value));
  }
  return lines;
}

// Every file of a run by its path, with its bytes. Of those that the clock decides too, or how often the run was started, only the
// names count; event files have one for each start. state.json is without its times.
std::map<std::string, std::string> timeless_files(const fs::path& workdir) {
  const std::set<std::string> of_the_clock = {".lock", "COMMIT", "index.html", "log.txt", "metrics.jsonl", "run.json"};
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(workdir)) {
    const std::string path = entry.path().lexically_relative(workdir).string(), name = entry.path().filename();
    if (!entry.is_regular_file() || path.starts_with("tb/")) continue;
    std::string bytes = of_the_clock.contains(name) ? "" : read_file(entry.path());
    if (name == "state.json") {
      Json state = Json::parse(bytes);
      for (const char* time : {"seconds", "times"}) state.at("state").erase(time);
      bytes = state.dump(1);
    }
    files[path] = std::move(bytes);
  }
  return files;
}

class Interrupted : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 40);
    write_images(folder_ / "val", 15);
    std::string recipe = tiny_recipe();
    recipe.replace(recipe.find("6 steps"), 7, "90 steps");
    const std::string_view chain = "random_crop(8)", one = "threads = 1";
    recipe.replace(recipe.find(chain), chain.size(), "random_crop(8) | flip_lr");
    recipe.replace(recipe.find(one), one.size(), "threads = 3");
    write_file(folder_ / "tiny.toml", recipe);
  }

  std::vector<std::string> command(const std::string& workdir, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"train", "tiny.toml", "--workdir", workdir};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  // Runs to the end, however often it has to be started.
  void finish(const std::string& workdir, const std::vector<std::string>& more = {}) const {
    const Outcome last = run_program(command(workdir, more), folder_.path());
    ASSERT_EQ(last.exit, 0) << last.err;
  }

  std::string weights(const std::string& workdir) const {
    return read_file(folder_ / workdir / "checkpoints/step_000000090/state.safetensors");
  }

  void expect_equal_to_the_undisturbed(const std::string& workdir, const std::string& undisturbed) {
    ASSERT_FALSE(weights(undisturbed).empty());
    EXPECT_TRUE(weights(workdir) == weights(undisturbed)) << "the final states differ";
    EXPECT_EQ(timeless_metrics(folder_ / workdir), timeless_metrics(folder_ / undisturbed));
#ifdef TESSERA_HAS_TENSORBOARD
    const auto curves = [&](const std::string& of) { return testing::timeless_curves((folder_ / of / "tb").string()); };
    Json& wanted = undisturbed_curves_[undisturbed];
    if (wanted.empty()) wanted = curves(undisturbed);
    EXPECT_FALSE(wanted.empty());
    EXPECT_EQ(curves(workdir), wanted);
#endif
  }

  void expect_the_same_files(const std::string& workdir, const std::string& undisturbed) const {
    const auto files = timeless_files(folder_ / workdir), wanted = timeless_files(folder_ / undisturbed);
    for (const auto& [path, bytes] : wanted) EXPECT_TRUE(files.contains(path) && files.at(path) == bytes) << path << " differs";
    for (const auto& [path, bytes] : files) EXPECT_TRUE(wanted.contains(path)) << path << " is left over";
  }

  void kill_and_compare(int kills, const std::vector<std::string>& more);

  TempFolder folder_;
  std::map<std::string, Json> undisturbed_curves_;  // by the run: TensorBoard takes most of a second to start
};

// Kills runs at random moments until `kills` have died, letting each that was killed go on; each must end like the undisturbed.
void Interrupted::kill_and_compare(int kills, const std::vector<std::string>& more) {
  finish("whole", more);
  const auto start = Clock::now();
  finish("whole again", more);  // now that the programs are in the cache: what a start takes
  const std::chrono::duration<double> length = Clock::now() - start;
  expect_equal_to_the_undisturbed("whole again", "whole");
  Rng rng(20260101);
  int killed = 0, workdirs = 1, starts = 0;
  const auto workdir = [&] { return "killed " + std::to_string(workdirs); };
  while (killed < kills && starts < 20 * kills) {
    ++starts;
    RunningProgram run(command(workdir(), more), folder_.path());
    std::this_thread::sleep_for(length * rng.uniform(0.05, 0.95));
    run.send(SIGKILL);
    const int exit = run.wait().exit;
    killed += exit == 128 + SIGKILL;
    if (exit == 0) {  // it came to its end: compare, and go on with another run
      expect_equal_to_the_undisturbed(workdir(), "whole");
      expect_the_same_files(workdir(), "whole");
      ++workdirs;
    }
  }
  EXPECT_EQ(killed, kills);
  finish(workdir(), more);
  expect_equal_to_the_undisturbed(workdir(), "whole");
  expect_the_same_files(workdir(), "whole");
}

#ifdef TESSERA_HAS_TENSORBOARD
// A kill can come between the last checkpoint and the sinks' threads.
TEST_F(Interrupted, AFinishedRunGivesSinksWhatTheyLack) {
  finish("whole");
  const fs::path events = folder_.path() / "whole/tb";
  const auto before = testing::timeless_curves(events.string());
  ASSERT_FALSE(before.empty());
  fs::remove_all(events);
  finish("whole");
  EXPECT_EQ(testing::timeless_curves(events.string()), before);
}
#endif

TEST_F(Interrupted, SigkillAtTenRandomMomentsChangesNothing) { kill_and_compare(10, {}); }

TEST_F(Interrupted, SigkillOnAMeshChangesNothing) { kill_and_compare(5, {"--devices", "4", "mesh=replica=2, fsdp=2"}); }

// Sends SIGTERM as soon as `now` holds; gives how the program ended.
Outcome terminate_when(RunningProgram& run, const std::function<bool()>& now) {
  while (run.running() && !now()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  const auto sent = Clock::now();
  run.send(SIGTERM);
  Outcome end = run.wait();
  std::cout << "  ended " << std::chrono::duration<double>(Clock::now() - sent).count() << " s after SIGTERM\n";
  return end;
}

TEST_F(Interrupted, SigtermInEveryPhaseSavesAndLosesNothing) {
  const std::vector<std::string> slow_evaluation{"eval.val.batch=1"};  // 30 of its steps follow each third step of training
  finish("whole", slow_evaluation);
  const fs::path workdir = folder_ / "stopped", saves = workdir / "checkpoints";
  const auto saving = [&] {
    std::error_code error;
    const fs::directory_iterator entries(saves, error);
    return !error && std::any_of(begin(entries), end(entries), [](const fs::directory_entry& e) {
      return e.path().string().find(".tmp-") != std::string::npos;
    });
  };
  const auto wrote = [&](const char* text) {
    return [this, text, &workdir] { return read_file(workdir / "metrics.jsonl").find(text) != std::string::npos; };
  };
  // With its own, empty cache the program is compiled for seconds after the model was announced.
  const TempFolder cold;
  const struct {
    const char* phase;
    std::function<bool(RunningProgram&)> now;
    std::map<std::string, std::string> environment;
  } phases[] = {{"compilation",
                 [](RunningProgram& r) { return r.err().find("parameters") != std::string::npos; },
                 {{"TESSERA_CACHE_DIR", cold.path().string()}}},
                {"a step", [&](RunningProgram&) { return wrote("\"step\":4,")(); }, {}},
                {"a save", [&](RunningProgram&) { return saving(); }, {}},
                {"an evaluation", [&](RunningProgram&) { return wrote("\"step\":20,")(); }, {}}};
  for (const auto& p : phases) {
    SCOPED_TRACE(p.phase);
    std::cout << p.phase << ":\n";
    RunningProgram run(command("stopped", slow_evaluation), folder_.path(), p.environment);
    const Outcome end = terminate_when(run, [&] { return p.now(run); });
    EXPECT_EQ(end.exit, 75) << end.err;
    EXPECT_FALSE(fs::is_empty(saves));
    EXPECT_FALSE(saving()) << "a half-written checkpoint is left";
  }
  finish("stopped", slow_evaluation);
  expect_equal_to_the_undisturbed("stopped", "whole");
  expect_the_same_files("stopped", "whole");
}

TEST_F(Interrupted, CtrlCSavesAndSaysHowToGoOn) {
  RunningProgram run(command("run"), folder_.path());
  while (run.running() && read_file(folder_ / "run/metrics.jsonl").find("\"step\":4,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  run.send(SIGINT);
  const Outcome end = run.wait();
  EXPECT_EQ(end.exit, 130) << end.err;
  EXPECT_THAT(end.err, HasSubstr("tessera train tiny.toml"));
  finish("run");
}

TEST_F(Interrupted, ASecondRunInTheSameWorkdirIsRefused) {
  RunningProgram run(command("run"), folder_.path());
  while (run.running() && !fs::exists(folder_ / "run/metrics.jsonl")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Outcome second = run_program(command("run"), folder_.path());
  EXPECT_EQ(second.exit, 2);
  EXPECT_THAT(second.err, HasSubstr("in use by"));
}

TEST_F(Interrupted, ADamagedCheckpointIsPassedOverForTheOneBefore) {
  finish("whole");
  finish("run", {"checkpoint.keep=3"});
  const fs::path last = folder_ / "run/checkpoints/step_000000090/state.safetensors";
  std::string bytes = read_file(last);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(last, bytes);
  const Outcome again = run_program(command("run", {"checkpoint.keep=3"}), folder_.path());
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("step_000000090"));
  expect_equal_to_the_undisturbed("run", "whole");
}

}  // namespace
}  // namespace tessera::cli
