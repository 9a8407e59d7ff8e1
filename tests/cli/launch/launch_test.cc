// Runs of several processes: the same bytes as one process with as many devices, whatever happens to them.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include "cli/launch/namespaces.h"
#include "cli/launched_run.h"
#include "cli/run_program.h"
#include "cluster/group/local_etcd.h"
#include "cluster/launch/host_agent.h"
#include "cluster/launch/processes/child.h"
#include "monitor/process_figures.h"
#include "store/local/lock.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Launch : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 20);
    write_images(folder_ / "val", 7);
    recipe(tiny_recipe());
  }
  void recipe(const std::string& text) const { write_file(folder_ / "tiny.toml", text); }

  static std::vector<std::string> words(int64_t processes, const std::string& workdir, const std::vector<std::string>& more) {
    std::vector<std::string> args{"launch", "local:" + std::to_string(processes), "--", "train", "tiny.toml", "--workdir",
                                  workdir};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  void launch(int64_t processes, const std::string& workdir, const std::vector<std::string>& more = {}) const {
    const Outcome outcome = run_program(words(processes, workdir, more), folder_.path());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
  }
  void train(int64_t devices, const std::string& workdir, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"train", "tiny.toml", "--devices", std::to_string(devices), "--workdir", workdir});
    const Outcome outcome = run_program(more, folder_.path());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
  }

  // Two processes by mpirun alone, which gets `options`; what they say is in `out`.
  int mpirun(const std::string& options, const std::string& workdir) const {
    const std::string command =
        "cd " + folder_.path().string() +
        " && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TESSERA_CACHE_DIR=" + testing::cache_path() +
        " mpirun --quiet --oversubscribe --bind-to none -np 2 " + options + " " + testing::program_path() +
        " train tiny.toml --platform cpu --workdir " + workdir + " > out 2>&1";
    return WEXITSTATUS(std::system(command.c_str()));
  }

  std::string weights(const std::string& workdir, const std::string& step) const { return weights_of(folder_ / workdir, step); }
  // The last training_loss of a run.
  double loss(const std::string& workdir) const {
    std::ifstream file(folder_ / workdir / "metrics.jsonl");
    double last = 0;
    for (std::string line; std::getline(file, line);) last = Json::parse(line).value("training_loss", last);
    return last;
  }
  // The process of a launch that has that number.
  static pid_t process_of(const RunningProgram& launch, const std::string& number) {
    return child_of(launch, "environ", "TESSERA_PROCESS_ID=" + number + '\0');
  }
  // That has the text in a file of its own in /proc.
  static pid_t child_of(const RunningProgram& launch, const std::string& file, const std::string& text) {
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      pid_t pid = 0;
      const std::string name = entry.path().filename();
      if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
      std::istringstream status(read_file(entry.path() / "status"));
      const std::string own = read_file(entry.path() / file);
      for (std::string line; std::getline(status, line);) {
        if (line != "PPid:\t" + std::to_string(launch.pid())) continue;
        if (own.find(text) != std::string::npos) return pid;
      }
    }
    return -1;
  }

  TempFolder folder_;
};

// With the compiler as users have it (tests/CMakeLists.txt): XLA's older code generator rounds a step of one process over several
// devices in another way than that of several processes.
class LaunchedBytes : public Launch {};

TEST_F(LaunchedBytes, EndsWithTheBytesOfAsManyDevices) {
  recipe(tiny_recipe() + "predictions = true\n");
  write_file(folder_ / "val/left/broken.png", "no image");
  train(2, "devices");
  launch(2, "processes");
  ASSERT_FALSE(weights("devices", "06").empty());
  EXPECT_TRUE(weights("processes", "06") == weights("devices", "06"));
  EXPECT_TRUE(weights("processes", "03") == weights("devices", "03"));
  EXPECT_EQ(loss("processes"), loss("devices"));
  // Each process evaluates its part of the set.
  for (const char* kind : {".jsonl", ".skipped.jsonl"}) {
    const auto rows = [&](const char* run) { return read_file(folder_ / run / (std::string("evals/val_000000006") + kind)); };
    EXPECT_FALSE(rows("devices").empty()) << kind;
    EXPECT_EQ(rows("processes"), rows("devices")) << kind;
  }
}

TEST_F(Launch, OnlyTheFirstProcessReports) {
  const Outcome outcome = run_program(words(2, "run", {}), folder_.path());
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("val  step 6"), Not(HasSubstr("[1]"))));
  EXPECT_THAT(read_file(folder_ / "run/log-1.txt"), HasSubstr("val  step 6"));
  train(1, "alone");
  const auto lines = [&](const char* of) { return std::ranges::count(read_file(folder_ / of / "metrics.jsonl"), '\n'); };
  EXPECT_EQ(lines("run"), lines("alone"));
}

// What each process told the first one about itself, at the end of the run at the latest. Then the same for a run where one
// process is stopped most of the time, like a throttled processor.
TEST_F(Launch, TheWorkdirSaysHowEachProcessDoes) {
  launch(2, "run");
  const Json hosts = Json::parse(read_file(folder_ / "run/hosts.json"));
  ASSERT_EQ(hosts["processes"].size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const Json& process = hosts["processes"][i];
    EXPECT_EQ(process["process"], i);
    EXPECT_FALSE(process["host"].get<std::string>().empty());
    EXPECT_EQ(process["step"], 6);
    EXPECT_GE(process["input_wait"], 0);
    EXPECT_LE(process["input_wait"], 1);
    EXPECT_GE(process.at("peer_wait"), 0);
    EXPECT_LE(process["peer_wait"], 1);
    EXPECT_GT(process["step_seconds"], 0);
    EXPECT_GT(process["resident"], 1 << 20);
    EXPECT_GT(process["memory_total"], process["resident"]);
    EXPECT_GE(hosts["at"], process["seen"]);
  }
  train(1, "run", {"total=8 steps"});
  EXPECT_FALSE(fs::exists(folder_ / "run/hosts.json")) << "one process has no others";

  const std::string never = "100000000 steps";  // so that process 0 has no more to do than the other
  RunningProgram run(
      words(2, "slow", {"total=" + never, "checkpoint.every=" + never, "eval.val.every=" + never, "log=100 steps"}),
      folder_.path());
  await_step(run, folder_ / "slow", 100);
  const pid_t slow = process_of(run, "1");
  ASSERT_GT(slow, 0) << run.err();
  const auto named = [&] {
    const std::string text = read_file(folder_ / "slow/hosts.json");
    if (text.empty()) return false;
    const auto all = monitor::parse_host_figures(text, "hosts.json").processes;
    const auto slowest = monitor::slowest_process(all);
    // Its input is stopped too, so that it may be told by that.
    return slowest && slowest->process == 1 && slowest->holds_up() &&
           all[0].peer_wait.value_or(0) - all[1].peer_wait.value_or(1) >= monitor::kHoldsUp;
  };
  while (run.running() && !named()) {
    ::kill(slow, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ::kill(slow, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(named()) << run.err();
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit, 75);
}

// Sums are in pairs (cluster/group/pairwise_sum.h), so that it does not matter which devices are in one process.
TEST_F(LaunchedBytes, WhichDevicesAreInOneProcessDoesNotMatter) {
  std::string text = tiny_recipe();
  const auto put = [&](const std::string& from, const std::string& to) { text.replace(text.find(from), from.size(), to); };
  put("total = \"6 steps\"", "total = \"3 steps\"\naverage = { decay = 0.9 }");
  put("batch = 4", "batch = 8");
  put("threads = 1 }", "threads = 1, mixup = { mixup = 0.8, cutmix = 1.0 } }");
  put("pool = \"gap\"", "pool = \"gap\", dropout = 0.1");
  text.erase(text.find("[eval.val]"));
  recipe(text);
  train(1, "1x1");
  train(4, "1x4");
  launch(2, "2x2", {"--devices", "2"});
  launch(4, "4x1");
  train(8, "1x8");
  launch(4, "4x2", {"--devices", "2"});
  ASSERT_FALSE(weights("1x4", "03").empty());
  EXPECT_FALSE(weights("1x1", "03") == weights("1x4", "03")) << "one device adds up in another order";
  EXPECT_TRUE(weights("2x2", "03") == weights("1x4", "03"));
  EXPECT_TRUE(weights("4x1", "03") == weights("1x4", "03"));
  EXPECT_TRUE(weights("4x2", "03") == weights("1x8", "03"));
  EXPECT_EQ(loss("4x2"), loss("1x8"));
  // Where each of two devices has a part of the state, their sums are the same.
  launch(2, "sharded", {"--devices", "2", "mesh=fsdp=2", "sharding.rules=[\".* = fsdp(min_size=1)\"]"});
  EXPECT_TRUE(weights("sharded", "03") == weights("1x4", "03"));
}

// Batch norm, mixed and erased images, micro-batches and dropped paths see rows of other processes, or their numbers: the figures
// are those of one process, but for the order of sums.
TEST_F(LaunchedBytes, WhatSeesTheWholeBatchSeesThatOfAllProcesses) {
  recipe(R"toml(seed = 3
total = "4 steps"
log = "1 steps"
accumulate = 2
data = { source = "folder(train)", batch = 8, threads = 1, pp = "decode | resize(32) | value_range(-1, 1) | random_erasing(0.9, mode=pixel)", mixup = { mixup = 0.8, cutmix = 1.0 } }
model = { name = "resnet", block = "basic", depths = [1, 1, 1, 1], dims = [8, 16, 16, 16], drop_path = 0.2 }
objective = { name = "softmax" }
optimizer = { name = "sgd", lr = "1e-6" }
)toml");
  train(1, "one");
  train(4, "four");
  launch(2, "two", {"--devices", "2"});
  EXPECT_EQ(loss("two"), loss("four"));
  EXPECT_TRUE(weights("two", "04") == weights("four", "04"));
  // The loss is a sum of some 10^3 products in f32: 1e-4 of it is far more than their rounding, and far less than what a row in the
  // wrong place changes.
  EXPECT_NEAR(loss("two"), loss("one"), 1e-4 * loss("one"));
}

// Each process decides it by itself, from the scores of all rows.
TEST_F(LaunchedBytes, ScoresLowerTheRateAndEndTheRunInAllProcessesAlike) {
  const std::vector<std::string> more = {"total=60 steps", "early_stop=val/loss, patience=2, min_delta=10",
                                         "optimizer.lr=plateau(1e-2, metric=val/loss, patience=0, factor=0.5, threshold=0.99)"};
  train(2, "devices", more);
  const Outcome two = run_program(words(2, "processes", more), folder_.path());
  EXPECT_EQ(two.exit, 0) << two.err;
  EXPECT_THAT(two.err,
              AllOf(HasSubstr("the learning rate is now 0.25 of the schedule's"), HasSubstr("the run ends at step 9 of 60")));
  ASSERT_FALSE(weights("devices", "09").empty());
  EXPECT_TRUE(weights("processes", "09") == weights("devices", "09"));
}

TEST_F(Launch, AKilledProcessEndsTheOthersAndAllGoOn) {
  const std::vector<std::string> more = {"total=60 steps", "checkpoint.every=10 steps"};
  launch(2, "whole", more);
  for (const std::string victim : {"0", "1"}) {
    RunningProgram run(words(2, "killed" + victim, more), folder_.path());
    await_step(run, folder_ / ("killed" + victim), 14);
    const pid_t pid = process_of(run, victim);
    ASSERT_GT(pid, 0) << run.err();
    ::kill(pid, SIGKILL);
    const Outcome outcome = run.wait();
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("process " + victim + " was killed"), HasSubstr("restart 1 of 10")));
    const std::string left = victim == "0" ? "/log-1.txt" : "/log.txt";
    EXPECT_THAT(read_file(folder_ / ("killed" + victim + left)),
                HasSubstr("process " + victim + " is gone: this process ends"));
    EXPECT_TRUE(weights("killed" + victim, "60") == weights("whole", "60"));
  }
}

TEST_F(Launch, AKilledEtcdIsStartedAgain) {
  RunningProgram run(words(2, "run", {"total=60 steps", "checkpoint.every=10 steps"}), folder_.path());
  await_step(run, folder_ / "run", 14);
  const pid_t etcd = child_of(run, "cmdline", std::string("etcd") + '\0');
  ASSERT_GT(etcd, 0) << run.err();
  ::kill(etcd, SIGKILL);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the coordinator is gone"), HasSubstr("restart 1 of 10"),
                                 Not(HasSubstr("restart 2")), Not(HasSubstr("waits 600 s for the coordinator"))));
}

// A read of its input hangs once there is a checkpoint, while its lease is renewed.
TEST_F(Launch, AProcessWhoseInputHangsIsNamedAndEndsAndAllGoOn) {
  for (int i = 0; i < 20; ++i) {
    const fs::path image = folder_ / "train/left" / std::to_string(i);
    fs::rename(image.string() + ".png", image.string() + "_late.png");
  }
  const std::vector<std::string> more = {"total=60 steps", "checkpoint.every=10 steps", "--hang-timeout", "20"};
  launch(2, "whole", more);
  std::vector<std::string> command = words(2, "hung", more);
  command.insert(command.begin() + 2, "--restarts=0");
  const Outcome hung = run_program(command, folder_.path(),
                                   {{"LD_PRELOAD", testing::odd_files_path()},
                                    {"ODD_FILES_PROCESS", "1"},
                                    {"ODD_FILES_AFTER", folder_ / "hung/checkpoints/step_000000010"}});
  EXPECT_EQ(hung.exit, 75) << hung.err;
  const std::string hangs =
      "process 1 on .* hangs: no batch for [0-9]+ s: reading of `.*_late.png` has taken [0-9]+ s so far; 1 of 1 threads "
      "are busy";
  EXPECT_THAT(hung.err, ContainsRegex("warning: " + hangs + "; where that lasts, it ends \\(--hang-timeout 20\\)"));
  EXPECT_THAT(hung.err, ContainsRegex("error: " + hangs + ": this process ends \\(--hang-timeout 20\\), and the run goes on"));
  const Json hosts = Json::parse(read_file(folder_ / "hung/hosts.json"));
  EXPECT_THAT(hosts["processes"][1].value("hangs", ""), HasSubstr("_late.png` has taken")) << hosts;
  launch(2, "hung", more);
  EXPECT_TRUE(weights("hung", "60") == weights("whole", "60"));
}

TEST_F(Launch, ASignalEndsAllAfterTheSameStepAndTheRunGoesOnWithAnotherNumber) {
  const std::vector<std::string> more = {"total=60 steps", "checkpoint.every=60 steps"};
  RunningProgram run(words(2, "run", more), folder_.path());
  await_step(run, folder_ / "run", 14);
  run.send(SIGTERM);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.exit, 75) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("which is saved"));
  launch(1, "run", more);
  launch(4, "run", more);
  EXPECT_FALSE(weights("run", "60").empty());
}

TEST_F(Launch, MpirunStartsAndStopsTheRun) {
  const std::map<std::string, std::string> root = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  const std::vector<std::string> more = {"total=300 steps", "checkpoint.every=300 steps", "eval.val.every=300 steps"};
  std::vector<std::string> command = words(2, "mpi", more);
  command[1] = "mpi:2";
  RunningProgram run(command, folder_.path(), root);
  await_step(run, folder_ / "mpi", 14);
  run.send(SIGTERM);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("which is saved"));
  const Outcome rest = run_program(command, folder_.path(), root);
  EXPECT_EQ(rest.exit, 0) << rest.err;
  launch(2, "local", more);
  EXPECT_TRUE(weights("mpi", "300") == weights("local", "300"));
}

// Without a coordinator: PMIx tells the processes where the leader's is.
TEST_F(LaunchedBytes, MpirunAloneIsEnough) {
  ASSERT_EQ(mpirun("", "mpirun"), 0) << read_file(folder_ / "out");
  train(2, "devices");
  ASSERT_FALSE(weights("devices", "06").empty());
  EXPECT_TRUE(weights("mpirun", "06") == weights("devices", "06"));

  EXPECT_NE(mpirun("-x PATH=/absent", "without"), 0);
  EXPECT_THAT(read_file(folder_ / "out"), HasSubstr("apt-get install etcd-server"));
  EXPECT_NE(mpirun("-x TESSERA_PMIX=absent.so", "without"), 0);
  EXPECT_THAT(read_file(folder_ / "out"), AllOf(HasSubstr("absent.so"), HasSubstr("--coordinator-address")));
  EXPECT_NE(mpirun("-x TESSERA_COORDINATOR_KEY=key.pem", "without"), 0);
  EXPECT_THAT(read_file(folder_ / "out"), HasSubstr("--coordinator-key"));
}

// The hosts have no way out of their network: the leader's etcd is at their own address, behind a key that PMIx carries.
TEST_F(Launch, MpirunOverTwoHosts) {
  const Namespaces hosts(2);
  if (!hosts.made()) GTEST_SKIP() << "network namespaces are not permitted";
  const fs::path agent = folder_ / "agent";  // in the place of ssh
  write_file(agent, "#!/bin/sh\nhost=" + hosts.prefix() + "${1##*.}\nshift\n" +
                        "exec ip netns exec $host unshare --uts sh -c \"hostname $host; $*\"\n");
  fs::permissions(agent, fs::perms::owner_all);
  const std::string places = hosts.address(0) + "," + hosts.address(1);
  ASSERT_EQ(mpirun("--mca plm_rsh_agent " + agent.string() + " --host " + places, "hosts"), 0) << read_file(folder_ / "out");
  train(2, "devices");
  ASSERT_FALSE(weights("devices", "06").empty());
  EXPECT_TRUE(weights("hosts", "06") == weights("devices", "06"));
}

// Its commands are played by scripts: srun starts two processes here, scancel sends their signals.
TEST_F(Launch, AJobOfSlurmSavesWhenItsTimeEndsAndAsksForMore) {
  write_file(folder_ / "bin/srun", R"(#!/bin/sh
shift
export SLURM_NTASKS=2 SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
SLURM_PROCID=0 "$@" & first=$!
SLURM_PROCID=1 "$@" & second=$!
echo $first $second > tasks
wait $first; code=$?
wait $second
exit $code
)");
  write_file(folder_ / "bin/scancel", "#!/bin/sh\nkill -TERM $(cat tasks)\n");
  write_file(folder_ / "bin/scontrol", "#!/bin/sh\necho \"$@\" > asked\n");
  for (const char* name : {"srun", "scancel", "scontrol"}) fs::permissions(folder_ / "bin" / name, fs::perms::owner_all);
  std::vector<std::string> command =
      words(2, "run", {"total=300 steps", "checkpoint.every=300 steps", "eval.val.every=300 steps"});
  command[1] = "slurm:2";
  command.insert(command.begin() + 2, "--dry-run");
  const Outcome script = run_program(command, folder_.path());
  ASSERT_EQ(script.exit, 0) << script.err;
  write_file(folder_ / "job", script.out);

  const std::string start = "cd " + folder_.path().string() +
                            " && export PATH=$PWD/bin:$PATH SLURM_JOB_ID=" + std::to_string(::getpid()) +
                            " TESSERA_CACHE_DIR=" + testing::cache_path() + "; exec bash job > out 2>&1";
  const pid_t job = ::fork();
  if (job == 0) {
    ::execl("/bin/sh", "sh", "-c", start.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 && read_file(folder_ / "run/metrics.jsonl").find("\"step\":14,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ended = ::waitpid(job, &status, WNOHANG);
  }
  if (ended == 0) {
    ::kill(job, SIGTERM);
    ::waitpid(job, &status, 0);
  }
  EXPECT_EQ(WEXITSTATUS(status), 75) << read_file(folder_ / "out");
  EXPECT_THAT(read_file(folder_ / "out"), HasSubstr("stopped by SIGTERM"));
  EXPECT_EQ(read_file(folder_ / "asked"), "requeue " + std::to_string(::getpid()) + "\n");
}

TEST_F(Launch, ADryRunShowsWhatWouldBeRun) {
  const Outcome outcome =
      run_program({"launch", "local:2", "--dry-run", "--", "train", "tiny.toml", "total=9 steps"}, folder_.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.out, R"(# an etcd at 127.0.0.1:PORT, started for this launch
# process 0
TESSERA_NUM_PROCESSES=2 TESSERA_PROCESS_ID=0 TESSERA_COORDINATOR_ADDRESS=127.0.0.1:PORT TESSERA_RUN_ID=RUN tessera train tiny.toml 'total=9 steps'
# process 1
TESSERA_NUM_PROCESSES=2 TESSERA_PROCESS_ID=1 TESSERA_COORDINATOR_ADDRESS=127.0.0.1:PORT TESSERA_RUN_ID=RUN tessera train tiny.toml 'total=9 steps'
)");
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(Launch, ADryRunSaysWhatFewerHostsDo) {
  const auto dry_run = [&](const std::string& elastic, const std::string& model) {
    const Outcome outcome = run_program(
        {"launch", "ssh:a,b", "--elastic", elastic, "--dry-run", "--", "train", "tiny.toml", model}, folder_.path());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.out;
  };
  const std::string vit = "model.depth=1",
                    resnet = "model={name=\"resnet\", block=\"basic\", depths=[1,1,1,1], dims=[8,16,16,16]}";
  EXPECT_THAT(dry_run("1..2", vit),
              HasSubstr("# with fewer than 2, accumulate grows, so that no device has more rows at a time\n"));
  EXPECT_THAT(dry_run("1..2", resnet), HasSubstr("# with fewer than 2, accumulate stays 1, since the model has batch norm\n"));
  EXPECT_THAT(dry_run("2..2", vit), Not(HasSubstr("with fewer")));
}

// It waits for what an earlier launch left there, and the others of its own launch would wait for it.
TEST_F(Launch, AHostThatWaitsStopsWhenItIsAsked) {
  launch::HostRequest request;
  request.directory = folder_.path();
  request.command = {"train", "tiny.toml"};
  request.lock = folder_ / "lock";
  const int held = ::open(request.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  for (const auto& [signal, exit] : {std::pair(SIGTERM, 75), std::pair(SIGINT, 130)}) {
    launch::ChildOptions options;
    options.name = "host";
    options.command = {testing::program_path(), "launch", "host"};
    options.input = launch::to_line(request) + fmt::format("signal {}\n", signal);
    options.on_line = [](const std::string&) {};
    launch::Child host(std::move(options));
    host.wait();
    EXPECT_EQ(host.exit_code(), exit);
  }
  ::close(held);
}

// The line is longer than what a pipe holds.
TEST_F(Launch, AHostWhoseLinesNobodyTakesEnds) {
  launch::HostRequest request;
  request.directory = folder_.path();
  request.command = {"train", std::string(100'000, 'x')};
  const std::string line = launch::to_line(request);
  std::array<int, 2> in{}, out{};
  ASSERT_EQ(::pipe2(in.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
  const pid_t host = ::fork();
  if (host == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execl(testing::program_path().c_str(), "tessera", "launch", "host", nullptr);
    ::_exit(127);
  }
  std::thread launcher([&] { (void)!::write(in[1], line.data(), line.size()); });
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 400 && ended == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ended = ::waitpid(host, &status, WNOHANG);
  }
  if (ended == 0) {
    ::kill(host, SIGKILL);
    ::waitpid(host, &status, 0);
  }
  launcher.join();
  for (const int end : {in[0], in[1], out[0], out[1]}) ::close(end);
  EXPECT_EQ(ended, host) << "it waits";
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

// Each process of this machine has its part of the GPUs. Those of other hosts see what is there.
TEST_F(Launch, ADryRunShowsWhoHasWhichGpus) {
  const auto dry_run = [&](const std::string& place, const std::string& platform, std::vector<std::string> more = {},
                           const std::string& visible = "0,1") {
    std::vector<std::string> command = {"launch", place,   "--image",   "x",          "--dry-run",
                                        "--",     "train", "tiny.toml", "--platform", platform};
    if (place == "jobset:2" && platform == "cuda") command.insert(command.begin() + 2, "--gpus-per-node=4");
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command, folder_.path(), {{"CUDA_VISIBLE_DEVICES", visible}});
  };
  const Outcome two = dry_run("local:2", "cuda");
  EXPECT_EQ(two.exit, 0) << two.err;
  EXPECT_THAT(two.out, AllOf(HasSubstr("# process 0\nCUDA_VISIBLE_DEVICES=0 TESSERA_NUM_PROCESSES=2 TESSERA_PROCESS_ID=0 "),
                             HasSubstr("# process 1\nCUDA_VISIBLE_DEVICES=1 TESSERA_NUM_PROCESSES=2 TESSERA_PROCESS_ID=1 ")));
  EXPECT_THAT(dry_run("local:2", "cuda", {}, "3,GPU-8f1c,0,2").out,
              AllOf(HasSubstr("CUDA_VISIBLE_DEVICES=3,GPU-8f1c "), HasSubstr("CUDA_VISIBLE_DEVICES=0,2 ")));
  EXPECT_THAT(dry_run("local:1", "cuda").out, Not(HasSubstr("CUDA_VISIBLE_DEVICES")));

  // The mesh is of all of them, and is checked.
  EXPECT_EQ(dry_run("local:2", "cuda", {"mesh=fsdp=2"}).exit, 0);
  const Outcome more = dry_run("local:2", "cuda", {"mesh=fsdp=4"});
  EXPECT_EQ(more.exit, 2);
  EXPECT_THAT(more.err, HasSubstr("mesh"));
  EXPECT_THAT(dry_run("local:2", "cuda", {"mesh=tensor=2"}).err, HasSubstr("the same rows of a batch"));
  EXPECT_THAT(dry_run("local:2", "cuda", {}, "0,1,2").err, HasSubstr("3 GPUs can't be divided over 2 processes"));

  const Outcome chips = dry_run("local:2", "tpu");
  EXPECT_EQ(chips.exit, 2);
  EXPECT_EQ(chips.out, "");
  EXPECT_THAT(chips.err, HasSubstr("one process drives all TPU chips of a machine"));

  for (const std::string platform : {"tpu", "cuda"}) {
    for (const std::string place : {"mpi:2", "slurm:2", "jobset:2"}) {
      const Outcome plan = dry_run(place, platform);
      EXPECT_EQ(plan.exit, 0) << place << plan.err;
      EXPECT_THAT(plan.out, AllOf(HasSubstr("tiny.toml"), HasSubstr("platform"), HasSubstr(platform), Not(HasSubstr("REFUSED")),
                                  Not(HasSubstr("CUDA_VISIBLE_DEVICES"))))
          << place;
    }
  }
  EXPECT_THAT(dry_run("jobset:2", "cuda").out, HasSubstr("nvidia.com/gpu: 4\n"));
  EXPECT_TRUE(dry_run("slurm:2", "tpu").out.starts_with("#!/bin/bash\n#SBATCH ")) << "no note before it";
  // The hosts have the plugin for CUDA, which is nothing without NVIDIA's libraries.
  const Outcome hosts = dry_run("ssh:a,b", "cuda", {"--plugin", "/opt/xla_cuda_plugin.so"});
  EXPECT_EQ(hosts.exit, 0) << hosts.err;
  EXPECT_THAT(hosts.out, AllOf(HasSubstr("--plugin /opt/xla_cuda_plugin.so"), HasSubstr("bin/tessera_gloo.so"),
                               Not(HasSubstr("bin/xla_cuda_plugin.so")), Not(HasSubstr("bin/xla_cpu_pjrt.so"))));
}

TEST_F(Launch, ADryRunChecksTheRecipe) {
  const auto dry_run = [&](const std::string& place, const std::vector<std::string>& more) {
    std::vector<std::string> command = {"launch", place, "--image", "x", "--dry-run", "--", "train"};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command, folder_.path(), {{"TESSERA_PLATFORM", "auto"}});
  };
  for (const std::string place : {"local:2", "mpi:2", "slurm:2", "jobset:2", "ssh:a,b"}) {
    const Outcome wrong = dry_run(place, {"tiny.toml", "model.depthh=3"});
    EXPECT_EQ(wrong.exit, 2) << place;
    EXPECT_EQ(wrong.out, "") << place;
    EXPECT_THAT(wrong.err, HasSubstr("did you mean `model.depth`?")) << place;
    const Outcome elsewhere = dry_run(place, {"tiny.toml", "data.source=folder(absent)"});
    EXPECT_EQ(elsewhere.exit, 0) << place << elsewhere.err;
    EXPECT_THAT(elsewhere.err, HasSubstr("the recipe is checked only as far as its data are here")) << place;
  }
  EXPECT_THAT(dry_run("slurm:3", {"tiny.toml"}).err, HasSubstr("a batch of 4 can't be divided over"));
  const Outcome absent = dry_run("jobset:2", {"/absent/tiny.toml"});
  EXPECT_EQ(absent.exit, 0) << absent.err;
  EXPECT_THAT(absent.err, HasSubstr("`/absent/tiny.toml` is not on this machine, and is not checked"));
  EXPECT_EQ(dry_run("local:2", {"absent.toml"}).exit, 2);
  // How many devices there are is known to the hosts alone, unless they train on their processors.
  for (const std::string place : {"slurm:1", "jobset:1", "ssh:a", "slurm:2", "jobset:2", "ssh:a,b", "mpi:2"}) {
    const Outcome unknown = dry_run(place, {"tiny.toml", "mesh=fsdp=2"});
    EXPECT_EQ(unknown.exit, 0) << place << unknown.err;
    EXPECT_THAT(unknown.err, HasSubstr("the mesh is for 2 devices: whether the hosts have them is not checked")) << place;
    EXPECT_EQ(dry_run(place, {"tiny.toml", "mesh=fsdp=2", "--platform", "cpu"}).exit, 2) << place;
  }
  EXPECT_THAT(dry_run("slurm:2", {"tiny.toml", "mesh=tensor=2"}).err, HasSubstr("the same rows of a batch"));
  EXPECT_EQ(dry_run("slurm:1", {"tiny.toml", "mesh=fsdp=2,fsdp=2"}).exit, 2);
}

TEST_F(Launch, FlagsFromTheEnvironmentAreNotThoseOfPods) {
  const auto exit_of = [&](const std::string& place) {
    return run_program({"launch", place, "--image", "x", "--dry-run", "--", "train", "tiny.toml", "mesh=fsdp=2"},
                       folder_.path(), {{"TESSERA_PLATFORM", "cpu"}})
        .exit;
  };
  EXPECT_EQ(exit_of("slurm:2"), 2) << "each process has one processor";
  EXPECT_EQ(exit_of("jobset:2"), 0) << "pods may have GPUs";
}

TEST_F(Launch, SbatchIsFoundWithTheEnvironmentOfLaunchAndGetsThatOfTheRun) {
  write_file(folder_ / "bin/sbatch", "#!/bin/sh\nwhile read -r line; do :; done\necho \"$PATH $TOKEN\" > got\n");
  fs::permissions(folder_ / "bin/sbatch", fs::perms::owner_all);
  const Outcome outcome = run_program({"launch", "slurm:2", "--env", "PATH=/absent", "--env", "TOKEN=old", "--env",
                                       "TOKEN=hunter2", "--", "train", "tiny.toml"},
                                      folder_.path(), {{"PATH", (folder_ / "bin").string() + ":" + std::getenv("PATH")}});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(read_file(folder_ / "got"), "/absent hunter2\n");
}

TEST_F(Launch, ADryRunShowsNoValuesOfTheEnvironment) {
  for (const std::string place : {"local:2", "mpi:2", "slurm:2", "jobset:2", "ssh:a,b"}) {
    const Outcome outcome = run_program({"launch", place, "--env", "TOKEN=hunter2", "--env", "FORWARDED", "--image", "x",
                                         "--dry-run", "--", "train", "tiny.toml"},
                                        folder_.path(), {{"FORWARDED", "swordfish"}});
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("TOKEN"), HasSubstr("FORWARDED"), Not(HasSubstr("hunter2")), Not(HasSubstr("swordfish"))))
        << place;
  }
}

TEST_F(Launch, MistakesAreExplained) {
  const auto error = [&](const std::vector<std::string>& args, int exit) {
    const Outcome outcome = run_program(args, folder_.path());
    EXPECT_EQ(outcome.exit, exit) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({"launch"}, 2), HasSubstr("needs a place and a command"));
  EXPECT_THAT(error({"launch", "moon:2", "--", "train", "x"}, 2), HasSubstr("`moon:2` is no place to launch"));
  EXPECT_THAT(error({"launch", "local:0", "--", "train", "x"}, 2), HasSubstr("`local:0` names no number of processes"));
  EXPECT_THAT(error({"launch", "loca:2", "--", "train", "x"}, 2), HasSubstr("did you mean `local`?"));
  EXPECT_THAT(error({"launch", "local:2"}, 2), HasSubstr("nothing is launched"));
  EXPECT_THAT(error({"launch", "local:2", "train", "tiny.toml", "--workdir", "x"}, 2),
              HasSubstr("whose words stand behind --"));
  EXPECT_THAT(error({"launch", "local:2", "--", "predict", "x"}, 2), HasSubstr("`predict` is not run by several processes"));
  EXPECT_THAT(error({"launch", "local:2", "--coordinator-key", "key.pem", "--", "train", "tiny.toml"}, 2),
              HasSubstr("the key of an etcd, and nothing says which"));
  EXPECT_THAT(error({"train", "tiny.toml", "--coordinator-key", "key.pem"}, 2), HasSubstr("--coordinator-address HOST:PORT"));
  EXPECT_THAT(error(words(3, "run", {}), 2), HasSubstr("a batch of 4 can't be divided over"));
  for (const std::string name : {"", "A;touch made", "A B", "A-B", "1A"}) {
    EXPECT_THAT(error({"launch", "slurm:2", "--env", name + "=x", "--dry-run", "--", "train", "tiny.toml"}, 2),
                HasSubstr("its NAME is \"" + name + "\""));
  }
  for (const std::string place : {"local:2", "mpi:2", "slurm:2", "jobset:2"}) {
    EXPECT_THAT(error({"launch", place, "--elastic", "1..2", "--image", "x", "--dry-run", "--", "train", "tiny.toml"}, 2),
                HasSubstr("starts all of its processes or none"))
        << place;
  }
}

TEST_F(Launch, JobsAndPodsAloneSayHowLongTheyWaitForACheckpoint) {
  for (const std::string place : {"local:2", "mpi:2", "ssh:a,b", "slurm:2"}) {
    const Outcome outcome = run_program({"launch", place, "--save-timeout", "900", "--dry-run", "--", "train", "tiny.toml"},
                                        folder_.path(), {{"TESSERA_SAVE_TIMEOUT", "600"}});
    const bool takes_it = place == "slurm:2";
    EXPECT_EQ(outcome.exit, takes_it ? 0 : 2) << place << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err,
                HasSubstr(takes_it ? "--signal=B:TERM@900" : "waits until the last checkpoint is written"))
        << place;
  }
  EXPECT_EQ(run_program({"launch", "local:2", "--dry-run", "--", "train", "tiny.toml"}, folder_.path(),
                        {{"TESSERA_SAVE_TIMEOUT", "600"}})
                .exit,
            0);
}

TEST_F(Launch, PodsAloneAskForGpus) {
  for (const std::string place : {"local:2", "mpi:2", "slurm:2", "ssh:a,b"}) {
    const Outcome outcome =
        run_program({"launch", place, "--gpus-per-node", "8", "--dry-run", "--", "train", "tiny.toml"}, folder_.path());
    EXPECT_EQ(outcome.exit, 2) << place;
    EXPECT_THAT(outcome.err, HasSubstr("takes the GPUs that its hosts have")) << place;
  }
}

// An earlier launch may be writing its last checkpoint: the launch tries again.
TEST_F(Launch, AWorkdirThatIsInUseIsTriedAgain) {
  fs::create_directory(folder_ / "run");
  const store::DirectoryLock lock((folder_ / "run").string());
  std::vector<std::string> command = words(2, "run", {});
  command.insert(command.begin() + 2, "--restarts=1");
  const Outcome outcome = run_program(command, folder_.path());
  EXPECT_EQ(outcome.exit, 75) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("is in use by process"), HasSubstr("restart 1 of 1")));
  EXPECT_EQ(run_program({"train", "tiny.toml", "--workdir", "run"}, folder_.path()).exit, 2);
}

// Both say what differs, before a step.
TEST_F(Launch, AHostWithAnotherRecipeDataOrPluginIsRefused) {
  const group::LocalEtcd etcd;
  const auto copy_all = [&] {
    fs::remove_all(folder_ / "host");
    fs::create_directory(folder_ / "host");
    for (const char* name : {"tiny.toml", "train", "val"})
      fs::copy(folder_ / name, folder_ / "host" / name, fs::copy_options::recursive);
  };
  copy_all();
  const auto expect_refused = [&](const std::string& run, const std::vector<std::string>& more,
                                  const ::testing::Matcher<std::string>& why) {
    const auto start = [&](const std::string& id, const fs::path& directory, const std::vector<std::string>& overrides) {
      std::vector<std::string> args{
          "train",        "tiny.toml", "--workdir", run, "--num-processes", "2", "--process-id", id, "--coordinator-address",
          etcd.address(), "--run-id",  run};
      args.insert(args.end(), overrides.begin(), overrides.end());
      return std::make_unique<RunningProgram>(args, directory);
    };
    const auto first = start("0", folder_.path(), {}), second = start("1", folder_ / "host", more);
    for (const auto& process : {first.get(), second.get()}) {
      const Outcome outcome = process->wait();
      EXPECT_EQ(outcome.exit, 2) << outcome.err;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr("process 1 on "), why));
    }
    EXPECT_FALSE(fs::exists(folder_ / run / "metrics.jsonl"));
  };
  expect_refused("recipes", {"seed=7"},
                 AllOf(HasSubstr("the recipe differs from that of process 0"), HasSubstr("seed = 7   process 0: ")));
  const fs::path image = fs::recursive_directory_iterator(folder_ / "host/train/left")->path();
  fs::rename(image, image.parent_path() / "another.png");
  expect_refused("data", {}, HasSubstr("the data differs from that of process 0"));
  copy_all();
  // The same but for its size: a byte behind what is loaded.
  fs::copy_file(testing::cpu_plugin_path(), folder_ / "host/plugin.so");
  std::ofstream(folder_ / "host/plugin.so", std::ios::app) << '\0';
  expect_refused("plugins", {"--plugin", "plugin.so"},
                 AllOf(HasSubstr("the plugin differs from that of process 0"), HasSubstr("bytes   process 0: file of ")));
}

TEST_F(Launch, ACoordinatorThatIsNotThereIsWaitedFor) {
  RunningProgram run({"train", "tiny.toml", "--num-processes", "2", "--process-id", "0", "--coordinator-address", "127.0.0.1:1",
                      "--meet-timeout", "900"},
                     folder_.path());
  const std::string note = "waits 900 s for the coordinator: 127.0.0.1:1 cannot be reached: Connection refused";
  while (run.running() && run.err().find(note) == std::string::npos) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(run.running());
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit, 75);
}

}  // namespace
}  // namespace tessera::cli
