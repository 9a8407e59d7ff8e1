// Runs on a real server of MLflow, as its own client reads them.

#ifdef TESSERA_HAS_TRACKERS

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "cli/metrics_lines.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A script of tests/support/scripts that prints a line when it is ready. It ends with this object or with this process.
class Script {
 public:
  Script(const std::string& name, std::vector<std::string> args) {
    int to_it[2], from_it[2];
    EXPECT_EQ(::pipe2(to_it, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from_it, O_CLOEXEC), 0);
    const std::string python = testing::trackers_python_path(), script = testing::source_path("tests/support/scripts/" + name);
    args.insert(args.begin(), {python, script});
    std::vector<char*> argv;
    argv.reserve(args.size() + 1);
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(to_it[0], STDIN_FILENO);
      ::dup2(from_it[1], STDOUT_FILENO);
      ::execv(python.c_str(), argv.data());
      ::_exit(127);
    }
    ::close(to_it[0]);
    ::close(from_it[1]);
    to_ = to_it[1];
    from_ = ::fdopen(from_it[0], "r");
    ready_ = line();
  }
  ~Script() {
    ::close(to_);
    std::fclose(from_);
    ::waitpid(child_, nullptr, 0);
  }
  // The line that it printed: a server's address.
  const std::string& address() const { return ready_; }
  // The line that answers a line.
  std::string ask(const std::string& what) {
    EXPECT_EQ(::write(to_, (what + "\n").c_str(), what.size() + 1), static_cast<ssize_t>(what.size() + 1));
    return line();
  }
  std::string line() {
    std::string text;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) text += static_cast<char>(c);
    return text;
  }

 private:
  pid_t child_ = -1;
  int to_ = -1;
  FILE* from_ = nullptr;
  std::string ready_;
};

class Mlflow : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    fs::create_directory(*folder_ / "server");
    server_ = new Script("serve_mlflow.py", {(*folder_ / "server").string()});
    reader_ = new Script("read_mlflow.py", {server_->address()});
    write_images(*folder_ / "train", 12);
    write_images(*folder_ / "val", 5);
    write_file(*folder_ / "tiny.toml", tiny_recipe());
  }
  static void TearDownTestSuite() {
    delete reader_;
    delete server_;
    delete folder_;
  }

  static std::vector<std::string> command(const std::string& workdir, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args{"train",       "tiny.toml",     "--workdir",  workdir, "monitor.sinks=['mlflow']",
                                  "log=1 steps", "total=9 steps", "--no-report"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // An experiment for each workdir.
  static std::map<std::string, std::string> variables(const std::string& workdir) {
    return {{"MLFLOW_TRACKING_URI", server_->address()},
            {"MLFLOW_EXPERIMENT_NAME", "of " + workdir},
            {"MLFLOW_TRACKING_TOKEN", "a-very-secret-token"},
            {"NO_PROXY", "127.0.0.1"},
            {"no_proxy", "127.0.0.1"}};
  }
  static Outcome train(const std::string& workdir, const std::vector<std::string>& more = {}) {
    return run_program(command(workdir, more), folder_->path(), variables(workdir));
  }
  // "stop" or "start".
  static void tell_server(const std::string& what) { EXPECT_EQ(server_->ask(what), "done"); }
  static Json runs(const std::string& workdir) { return Json::parse(reader_->ask("of " + workdir)); }
  static Json only_run(const std::string& workdir) {
    const Json all = runs(workdir);
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  }
  // One point for each step of each key, under the names that the server takes.
  static void expect_curves(const Json& run, const Curves& expected) {
    EXPECT_EQ(run["metrics"].size(), expected.size());
    for (const auto& [name, curve] : expected) {
      std::string key = name;
      if (const size_t at = key.find('@'); at != std::string::npos) key.replace(at, 1, "_at_");
      std::map<int64_t, double> found;
      for (const Json& point : run["metrics"][key]) {
        EXPECT_TRUE(found.emplace(point[0], point[1]).second)
            << key << " twice at step " << point[0] << ": " << run["metrics"][key].dump().substr(0, 900);
      }
      EXPECT_EQ(found, curve) << key;
    }
  }
  static void wait_until(RunningProgram& run, const std::function<bool()>& now) {
    while (run.running() && !now()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(run.running()) << run.err();
  }
  static bool wrote(const std::string& workdir, int64_t step) {
    return read_file(*folder_ / workdir / "metrics.jsonl").find("\"step\":" + std::to_string(step) + ",") != std::string::npos;
  }

  static inline Script* server_ = nullptr;
  static inline Script* reader_ = nullptr;
  static inline TempFolder* folder_ = nullptr;
};

TEST_F(Mlflow, HasEveryFigureAndTheRecipe) {
  const Outcome outcome = train("whole");
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("warning: mlflow")));
  const Json run = only_run("whole");
  expect_curves(run, curves_of(*folder_ / "whole"));
  EXPECT_EQ(run["name"], "whole");
  EXPECT_EQ(run["status"], "FINISHED");
  EXPECT_GE(run["end"], run["start"]);
  EXPECT_EQ(run["params"]["optimizer.name"], "adamw");
  EXPECT_EQ(run["params"]["model.width"], "16");
  EXPECT_EQ(run["params"]["eval_at_start"], "false");
  EXPECT_THAT(run["tags"]["mlflow.source.name"].get<std::string>(), HasSubstr("--workdir"));
  EXPECT_THAT(run["tags"]["tessera.version"].get<std::string>(), HasSubstr("0."));
}

TEST_F(Mlflow, ARunThatWasKilledIsOneRunWithEachStepOnce) {
  RunningProgram run(command("killed", {"total=100000 steps", "checkpoint.every=20 steps"}), folder_->path(),
                     variables("killed"));
  wait_until(run, [] { return wrote("killed", 50); });
  run.send(SIGKILL);
  run.wait();
  const int64_t last = curves_of(*folder_ / "killed").at("training_loss").rbegin()->first;
  const Outcome outcome = train("killed", {"total=" + std::to_string(last + 30) + " steps", "checkpoint.every=20 steps"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const Json found = only_run("killed");
  EXPECT_EQ(found["status"], "FINISHED");
  // What the clock decides is of the start that sent the point.
  const Curves expected = curves_of(*folder_ / "killed");
  Json timeless_run = found;
  for (const auto& [name, points] : found["metrics"].items()) {
    if (testing::is_clock_key(name)) timeless_run["metrics"].erase(name);
    // Those of evaluations, and those that a line in which no time was measured lacks.
    const bool sometimes = std::ranges::any_of(std::array{"val/", "z/", "img/", "y/hostcpu/"},
                                               [&key = name](const char* start) { return key.starts_with(start); });
    if (!sometimes) {
      EXPECT_EQ(points.size(), static_cast<size_t>(last + 30)) << name;
    }
  }
  expect_curves(timeless_run, timeless(expected));
}

// The server is not done with the killed start's first points when the next one asks what it has.
TEST_F(Mlflow, ARequestOfAKilledStartThatIsStillAtWorkIsAwaited) {
  Script slow("slow_mlflow.py", {server_->address(), "2"});
  auto through_slow = variables("at_work");
  through_slow["MLFLOW_TRACKING_URI"] = slow.address();
  RunningProgram run(command("at_work", {"total=100000 steps", "checkpoint.every=20 steps"}), folder_->path(), through_slow);
  wait_until(run, [] {
    return wrote("at_work", 50) && read_file(*folder_ / "at_work/mlflow.json").find("sending") != std::string::npos;
  });
  run.send(SIGKILL);
  run.wait();
  const int64_t last = curves_of(*folder_ / "at_work").at("training_loss").rbegin()->first;
  const Outcome outcome =
      run_program(command("at_work", {"total=" + std::to_string(last + 30) + " steps"}), folder_->path(), through_slow);
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("warning: mlflow")));
  EXPECT_EQ(slow.line(), "done");
  const Json points = only_run("at_work")["metrics"]["training_loss"];
  EXPECT_EQ(points.size(), static_cast<size_t>(last + 30)) << points.dump().substr(0, 900);
}

TEST_F(Mlflow, ASignalIsKilledUntilItGoesOn) {
  RunningProgram run(command("stopped", {"total=100000 steps"}), folder_->path(), variables("stopped"));
  wait_until(run, [] { return wrote("stopped", 20); });
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit, 75);
  const Json stopped = only_run("stopped");
  EXPECT_EQ(stopped["status"], "KILLED");
  expect_curves(stopped, curves_of(*folder_ / "stopped"));
  const int64_t last = curves_of(*folder_ / "stopped").at("training_loss").rbegin()->first;
  ASSERT_EQ(train("stopped", {"total=" + std::to_string(last + 3) + " steps"}).exit, 0);
  EXPECT_EQ(only_run("stopped")["status"], "FINISHED");
  expect_curves(only_run("stopped"), curves_of(*folder_ / "stopped"));
}

TEST_F(Mlflow, AnOutageIsOneWarningAndTheNextStartSendsAll) {
  tell_server("stop");
  const Outcome away = train("away");
  ASSERT_EQ(away.exit, 0) << away.err;
  const size_t first = away.err.find("warning: mlflow: ");
  ASSERT_NE(first, std::string::npos) << away.err;
  EXPECT_THAT(away.err, HasSubstr("the run goes on, and the server gets what it lacks"));
  EXPECT_THAT(away.err, Not(HasSubstr("records are not written")));
  EXPECT_EQ(curves_of(*folder_ / "away").at("training_loss").size(), 9u);
  const Outcome finished = train("away");
  EXPECT_EQ(finished.err.find("warning: mlflow: "), finished.err.rfind("warning: mlflow: ")) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("warning: mlflow: "));
  tell_server("start");
  // The run is finished; starting it again sends what the server lacks, and a third start finds nothing to send.
  for (int i = 0; i < 2; ++i) {
    const Outcome again = train("away");
    ASSERT_EQ(again.exit, 0) << again.err;
    EXPECT_THAT(again.err, Not(HasSubstr("warning: mlflow")));
    const Json run = only_run("away");
    EXPECT_EQ(run["status"], "FINISHED");
    expect_curves(run, curves_of(*folder_ / "away"));
  }
}

TEST_F(Mlflow, AServerThatComesBackGetsWhatItMissed) {
  RunningProgram run(command("back", {"total=1000000 steps", "log=50 steps", "eval.val.every=50 steps"}), folder_->path(),
                     variables("back"));
  wait_until(run, [] { return wrote("back", 50); });
  while (runs("back").empty()) std::this_thread::yield();
  tell_server("stop");
  wait_until(run, [&] { return run.err().find("warning: mlflow") != std::string::npos; });
  const int64_t missed = curves_of(*folder_ / "back").at("training_loss").rbegin()->first;
  tell_server("start");
  const auto has_missed = [&] {
    const Json points = only_run("back")["metrics"]["training_loss"];
    return std::ranges::any_of(points, [&](const Json& point) { return point[0] > missed; });
  };
  wait_until(run, has_missed);
  run.send(SIGTERM);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.exit, 75);
  EXPECT_EQ(outcome.err.find("warning: mlflow"), outcome.err.rfind("warning: mlflow")) << outcome.err;
  expect_curves(only_run("back"), curves_of(*folder_ / "back"));
}

TEST_F(Mlflow, ARunFromTheBeginningWithOtherKeysIsAnother) {
  ASSERT_EQ(train("anew").exit, 0);
  const std::string id = only_run("anew")["id"];
  const std::string state = read_file(*folder_ / "anew/mlflow.json");
  EXPECT_THAT(state, HasSubstr(id));
  for (const fs::directory_entry& entry : fs::directory_iterator(*folder_ / "anew")) {
    if (entry.path().filename() != "mlflow.json" && entry.path().filename() != "recipe.toml") fs::remove_all(entry.path());
  }
  ASSERT_EQ(train("anew", {"optimizer.weight_decay=0.2"}).exit, 0);
  EXPECT_EQ(runs("anew").size(), 2u);
}

TEST_F(Mlflow, WithoutAServersNameItSaysSo) {
  auto without = variables("nowhere");
  without["MLFLOW_TRACKING_URI"] = "";
  const Outcome outcome = run_program(command("nowhere"), folder_->path(), without);
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_THAT(outcome.err, HasSubstr("warning: mlflow: MLFLOW_TRACKING_URI is not set"));
}

TEST_F(Mlflow, TokensAreWrittenNowhere) {
  const Outcome outcome = train("secret");
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("secret-token")));
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(*folder_ / "secret")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_THAT(read_file(entry.path()), Not(HasSubstr("secret-token"))) << entry.path();
  }
}

}  // namespace
}  // namespace tessera::cli

#endif
