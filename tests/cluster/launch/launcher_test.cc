// Plans of launches: what they would run, and files for schedulers as the schedulers' own tools take them.

#include "cluster/launch/launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/system/temporary_directory.h"
#include "cluster/group/members.h"
#include "cluster/group/run_key.h"
#include "cluster/launch/processes/child.h"
#include "cluster/launch/processes/signals.h"
#include "cluster/launch/processes/supervise.h"
#include "cluster/launch/remote_run.h"
#include "cluster/launch/tpu.h"
#include "support/free_port.h"
#include "support/paths.h"

namespace tessera::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Request request(const std::string& where) {
  Request one;
  one.where = where;
  one.command = {"train", "recipes/Vit_10b.toml", "data.source=folder(a b)"};
  one.directory = "/shared/a b";
  one.program = "/shared/tessera";
  return one;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    return error.what();
  }
  return "no Error";
}

// The exit code of a command that reads `input`; what it says is part of the test's message.
int run(const std::vector<std::string>& command, const std::string& input) {
  ChildOptions options;
  options.name = command[0];
  options.command = command;
  options.input = input;
  std::string said;
  options.on_line = [&](const std::string& line) { said += line + "\n"; };
  Child child(std::move(options));
  child.close_input();
  child.wait();
  EXPECT_EQ(said, "");
  return child.exit_code();
}

TEST(Launcher, IsFoundByItsName) {
  std::string where;
  EXPECT_EQ(&find_launcher("ssh:a:22,b", where), &kSsh);
  EXPECT_EQ(where, "a:22,b");
  EXPECT_EQ(&find_launcher("jobset", where), &kJobset);
  EXPECT_EQ(where, "");
  EXPECT_THAT(message_of([&] { find_launcher("slrm:2", where); }), HasSubstr("did you mean `slurm`?"));
  for (const char* count : {"", "0", "-1", "2x", "99999999999999999999"}) {
    EXPECT_THAT(message_of([&] { process_count(request(count), kMpi); }), HasSubstr("names no number of processes")) << count;
  }
}

TEST(Launcher, TheNameOfARunIsOneThatSchedulersTake) {
  EXPECT_EQ(run_name(request("2")), "vit-10b");
  Request odd = request("2");
  odd.command = {"train", "a/10_Größe--.toml"};
  EXPECT_EQ(run_name(odd), "gr----e");
  odd.command = {"train", "1.toml"};
  EXPECT_EQ(run_name(odd), "tessera");
}

TEST(Launcher, AJobOfSlurmIsAShellScript) {
  Request job = request("4");
  job.options = {"--time=24:00:00"};
  job.environment = {{"A", "it's"}};
  const std::string text = kSlurm.plan(job).written;
  EXPECT_EQ(run({"bash", "-n"}, text), 0);
  const size_t first_command = text.find("export A\n");
  ASSERT_NE(first_command, std::string::npos) << text;
  for (const char* line : {"\n#SBATCH --nodes=4\n", "\n#SBATCH --time=24:00:00\n", "\n#SBATCH --signal=B:TERM@300\n"}) {
    EXPECT_LT(text.find(line), first_command) << line;
  }
  EXPECT_THAT(text, Not(HasSubstr("it's")));
  EXPECT_THAT(text, HasSubstr("/shared/tessera train recipes/Vit_10b.toml 'data.source=folder(a b)' &"));
  EXPECT_THAT(text, HasSubstr("\nexport TESSERA_SAVE_TIMEOUT=300\n"));
  job.save_timeout = 900;
  EXPECT_THAT(kSlurm.plan(job).written,
              AllOf(HasSubstr("\n#SBATCH --signal=B:TERM@900\n"), HasSubstr("TERM 900 s before the time limit"),
                    HasSubstr("\nexport TESSERA_SAVE_TIMEOUT=900\n"), Not(HasSubstr("300"))));
  job.coordinator.address = "etcd:2379";
  EXPECT_THAT(kSlurm.plan(job).written, AllOf(HasSubstr("COORDINATOR_ADDRESS=etcd:2379\n"), Not(HasSubstr("--listen-client"))));
}

// So sbatch of Slurm 22.05 took these lines.
TEST(Launcher, AJobOfSlurmRunsInADirectoryOfAnyName) {
  Request job = request("4");
  EXPECT_THAT(kSlurm.plan(job).written, HasSubstr("\n#SBATCH --chdir=\"/shared/a b\"\n"));
  job.directory = R"(/it's "a"#b\c)";
  EXPECT_THAT(kSlurm.plan(job).written, HasSubstr("\n#SBATCH --chdir="
                                                  R"("/it's \"a\"#b\\c")"
                                                  "\n"));
  job.directory = "/plain";
  EXPECT_THAT(kSlurm.plan(job).written, HasSubstr("\n#SBATCH --chdir=/plain\n"));
}

// A job's script, whose commands are played by scripts: srun ends with what a file says, scontrol writes what it is asked.
class JobOfSlurm : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(path("bin"));
    // Where its time is up, Slurm sends TERM to the script, which passes it on to srun's processes; they save and end.
    play("srun", "if [ -e limit ]; then kill -TERM $PPID; until [ -e saved ]; do sleep 0.01; done; fi\nexit $(cat code)\n");
    play("scancel", "touch saved\n");
    play("scontrol", "echo \"$@\" >> asked\n");
    Request job = request("4");
    job.restarts = 2;
    job.coordinator.address = "etcd:2379";
    job.environment = {{"A", "1"}};
    write("job", kSlurm.plan(job).written);
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  void play(const std::string& command, const std::string& script) const {
    write("bin/" + command, "#!/bin/sh\n" + script);
    std::filesystem::permissions(path("bin/" + command), std::filesystem::perms::owner_all);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // The exit code of the script, whose srun ends with `code` so long after it began.
  int ends(int code, int after_seconds = 0, const char* messages = "") const {
    write("code", std::to_string(code));
    return run({"env", "A=1", "SLURM_JOB_ID=7", "bash", "-c",
                fmt::format("cd {} && PATH=$PWD/bin:$PATH SECONDS={} && . ./job {}", folder_.path(), after_seconds, messages)},
               "");
  }
  int64_t requeued() const {
    const std::string asked = read("asked");
    return std::ranges::count(asked, '\n');
  }
  bool counts() const { return std::filesystem::exists(path(kCount)); }

  static constexpr const char* kCount = "vit-10b-7.restarts";
  const TemporaryDirectory folder_{"tessera-test"};
};

TEST_F(JobOfSlurm, CountsRestartsInARow) {
  EXPECT_EQ(ends(75), 75);
  EXPECT_EQ(read(kCount), "1\n");
  EXPECT_EQ(ends(137), 137);
  EXPECT_EQ(read("asked"), "requeue 7\nrequeue 7\n");
  EXPECT_EQ(ends(75), 75);
  EXPECT_EQ(read("asked"), "requeue 7\nrequeue 7\n");
  EXPECT_EQ(ends(4), 4);
  EXPECT_EQ(read("asked"), "requeue 7\nrequeue 7\n");

  ends(75);
  ends(75);
  EXPECT_EQ(read(kCount), "2\n");
  EXPECT_EQ(ends(75, 3600), 75);  // after an hour the count begins anew
  EXPECT_EQ(read(kCount), "1\n");
  EXPECT_EQ(requeued(), 5);
}

// While a job that was cancelled ends, Slurm would queue it again.
TEST_F(JobOfSlurm, IsNotQueuedAgainWhereItWasCancelled) {
  play("squeue", "cat state\n");
  write("state", "RUNNING,None\n");
  EXPECT_EQ(ends(75), 75);
  EXPECT_EQ(requeued(), 1);
  write("state", "COMPLETING,None\n");
  EXPECT_EQ(ends(75), 75);
  EXPECT_EQ(requeued(), 1);
  EXPECT_FALSE(counts());
}

TEST_F(JobOfSlurm, IsQueuedAgainWhereItsTimeIsUp) {
  ends(75);
  write("limit", "");
  const auto time_is_up = [&](int after_seconds, const char* messages = "") {
    std::filesystem::remove(path("saved"));
    ends(75, after_seconds, messages);
  };
  time_is_up(600);
  EXPECT_EQ(requeued(), 2);
  EXPECT_FALSE(counts());
  for (int i = 0; i < 3; ++i) time_is_up(0);  // within its start it comes no further
  EXPECT_EQ(requeued(), 4);
  std::filesystem::create_directory(path(kCount));  // a count that can't be written
  time_is_up(0, "2> /dev/null");
  EXPECT_EQ(requeued(), 4);
}

// tests/references/jobset_schema.json is made from JobSet's own definition.
TEST(Launcher, AJobSetIsAsKubernetesTakesIt) {
  const std::vector<std::string> check = {"/usr/bin/python3", testing::source_path("tests/cluster/launch/check_jobset.py"),
                                          testing::source_path("tests/references/jobset_schema.json")};
  Request job = request("4");
  job.image = "registry/tessera:1";
  job.directory.clear();
  EXPECT_EQ(run(check, kJobset.plan(job).written), 0);
  EXPECT_THAT(kJobset.plan(job).written, AllOf(HasSubstr("action: RestartJobSet\n"), HasSubstr("action: FailJobSet\n"),
                                               Not(HasSubstr("IgnoreMaxRestarts")), HasSubstr("PeriodSeconds: 300 ")));
  job.save_timeout = 900;
  job.where = "";
  job.volume = "claim:/a b";
  job.topology = "v5e:16x16";
  job.coordinator.address = "etcd:2379";
  job.environment = {{"A", "no"}, {"B", "a: \"b\" # c"}, {"A", "yes"}};
  const std::string text = kJobset.plan(job).written;
  EXPECT_EQ(run(check, text), 0);
  EXPECT_THAT(text, HasSubstr("name: vit-10b-environment\nstringData: {\"A\":\"yes\",\"B\":\"a: \\\"b\\\" # c\"}\n---\n"));
  EXPECT_THAT(text, HasSubstr("envFrom:\n              - secretRef:\n                  name: vit-10b-environment\n"));
  EXPECT_THAT(text, HasSubstr("TESSERA_RUN_ID\n                valueFrom:\n                  fieldRef:\n"
                              "                    fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']\n"))
      << "another one for each JobSet at that etcd";
  EXPECT_THAT(text,
              AllOf(HasSubstr("PeriodSeconds: 900 "), HasSubstr("name: TESSERA_SAVE_TIMEOUT\n                value: \"900\"")));
  EXPECT_THAT(text, AllOf(HasSubstr("completions: 64\n"), HasSubstr("google.com/tpu: 4\n"), HasSubstr("workingDir: \"/a b\"")));

  job.where = "3";
  EXPECT_THAT(message_of([&] { kJobset.plan(job); }), HasSubstr("v5e:16x16 has 64 hosts, and jobset:3 names another number"));
  job.volume = "claim";
  EXPECT_THAT(message_of([&] { kJobset.plan(job); }), HasSubstr("`--volume` takes CLAIM:DIR"));
  job.image = "";
  EXPECT_THAT(message_of([&] { kJobset.plan(job); }), HasSubstr("`--image` is missing"));
}

TEST(Launcher, PodsAskForTheirGpus) {
  const std::vector<std::string> check = {"/usr/bin/python3", testing::source_path("tests/cluster/launch/check_jobset.py"),
                                          testing::source_path("tests/references/jobset_schema.json")};
  Request job = request("4");
  job.image = "registry/tessera:1";
  job.accelerator = "cuda";
  EXPECT_THAT(message_of([&] { kJobset.plan(job); }), HasSubstr("nothing says how many each has"));
  job.pod_gpus = 8;
  const std::string text = kJobset.plan(job).written;
  EXPECT_EQ(run(check, text), 0);
  EXPECT_THAT(text, AllOf(HasSubstr("resources:\n                limits:\n                  nvidia.com/gpu: 8\n"),
                          Not(HasSubstr("google.com")), Not(HasSubstr("nodeSelector"))));
  job.accelerator.clear();  // train looks itself what there is
  EXPECT_EQ(kJobset.plan(job).written, text);
  job.accelerator = "tpu";
  EXPECT_THAT(message_of([&] { kJobset.plan(job); }), HasSubstr("the pods of TPUs have no GPUs"));
  job.accelerator.clear();
  job.where.clear();
  job.topology = "v5e:16x16";
  EXPECT_THAT(message_of([&] { kJobset.plan(job); }), HasSubstr("the pods of TPUs have no GPUs"));
}

TEST(Launcher, TheKeyOfAJobSetIsASecret) {
  Request job = request("4");
  job.image = "x";
  const std::string own = kJobset.plan(job).written;
  EXPECT_THAT(own, AllOf(HasSubstr("key.pem: \"KEY\"\n"), HasSubstr("name: TESSERA_COORDINATOR_KEY\n")));
  job.coordinator.address = "etcd:2379";
  EXPECT_THAT(kJobset.plan(job).written, Not(HasSubstr("KEY")));
  job.coordinator.key = "secret text";
  const std::string given = kJobset.plan(job).written;
  EXPECT_THAT(given, AllOf(HasSubstr("key.pem: \"KEY\"\n"), HasSubstr("name: TESSERA_COORDINATOR_KEY\n"),
                           Not(HasSubstr("secret text"))));
}

// As its container runs it, but in a directory and at ports of the test's.
TEST(Launcher, TheCoordinatorOfAJobSetAnswersWhoHasTheKey) {
  Request job = request("4");
  job.image = "x";
  const std::string text = kJobset.plan(job).written, key = group::new_run_key();
  const size_t from = text.find("- |\n") + 4;
  std::string script = text.substr(from, text.find("volumeMounts", from) - from);
  const TemporaryDirectory folder("tessera-test");
  { std::ofstream(folder.path() + "/key.pem") << key; }
  const std::string port = std::to_string(testing::free_port()),
                    peer = "http://127.0.0.1:" + std::to_string(testing::free_port());
  for (const auto& [old, now] : std::vector<std::pair<std::string, std::string>>{
           {"/tmp/", folder.path() + "/"},
           {"/coordinator/", folder.path() + "/"},
           {":2379", ":" + port},
           {"exec etcd",
            fmt::format("exec etcd --listen-peer-urls {0} --initial-advertise-peer-urls {0} --initial-cluster tessera={0}",
                        peer)}}) {
    for (size_t at = script.find(old); at != std::string::npos; at = script.find(old, at + now.size()))
      script.replace(at, old.size(), now);
  }
  ChildOptions options;
  options.name = "etcd";
  options.command = {"sh", "-c", script};
  options.on_line = [](const std::string&) {};
  Child etcd(std::move(options));
  const std::string address = "127.0.0.1:" + port;
  const auto meet = [&](const std::string& with) {
    group::join_by_etcd({0, 1, address, "run", with}, [](const std::string&, Exit) {})->leave();
  };
  meet(key);
  EXPECT_THROW(meet(group::new_run_key()), Error);
  EXPECT_THROW(meet(""), Error);
  etcd.send(SIGKILL);
  etcd.wait();
}

TEST(Launcher, TheSchemaOfJobSetsRefusesWhatIsNone) {
  Request job = request("4");
  job.image = "x";
  std::string text = kJobset.plan(job).written;
  text.replace(text.find("restartPolicy"), 13, "restartpolicy");
  std::string command = "/usr/bin/python3 " + testing::source_path("tests/cluster/launch/check_jobset.py") + " " +
                        testing::source_path("tests/references/jobset_schema.json") + " > /dev/null";
  FILE* check = ::popen(command.c_str(), "w");
  std::fputs(text.c_str(), check);
  EXPECT_EQ(WEXITSTATUS(::pclose(check)), 1);
}

TEST(RemoteRun, FewerProcessesHaveMoreMicroBatches) {
  Request batches = request("a,b,c,d");
  batches.rows = 96;
  EXPECT_EQ(accumulate_with(batches, 4, 4), 1);
  EXPECT_EQ(accumulate_with(batches, 2, 4), 2);
  EXPECT_EQ(accumulate_with(batches, 1, 4), 4);
  batches.accumulate = 3;
  EXPECT_EQ(accumulate_with(batches, 2, 4), 6);
  batches.accumulate = 2;
  EXPECT_EQ(accumulate_with(batches, 2, 3), 3);
  // Where that does not divide the batch, the next one.
  batches.accumulate = 1;
  EXPECT_EQ(accumulate_with(batches, 2, 3), 2);
  batches.rows = 30;
  EXPECT_EQ(accumulate_with(batches, 2, 3), 3);
  // 2 x 8 devices divide a batch that 3 x 8 divide as well; whether twice as many do is not known.
  batches.rows = 0;
  EXPECT_EQ(accumulate_with(batches, 2, 3), 3);
  EXPECT_EQ(accumulate_with(batches, 2, 4), 2);
  batches.batch_norm = true;
  EXPECT_EQ(accumulate_with(batches, 2, 4), 1);
}

TEST(Tpu, SlicesHaveTheNamesOfGooglesTools) {
  const TpuSlice pod = find_slice("v5e:16x16");
  EXPECT_EQ(pod.accelerator_type, "v5litepod-256");
  EXPECT_EQ(pod.hosts, 64);
  EXPECT_EQ(find_slice("v5e:2x4").hosts, 1);
  EXPECT_EQ(find_slice("v5p:4x4x8").accelerator_type, "v5p-256");
  EXPECT_EQ(find_slice("v5p:4x4x8").hosts, 32);
  EXPECT_EQ(find_slice("v6e:4x4").chips_of_a_host(), 4);
  for (const char* wrong : {"v5e", "v5e:", "v5e:4y4", "v5e:0x4", "v5e:3x3", "v5e:4x", "v5e:99999x99999"}) {
    EXPECT_THAT(message_of([&] { find_slice(wrong); }), HasSubstr("write the chips' grid: v5e:4x4")) << wrong;
  }
  EXPECT_THAT(message_of([&] { find_slice("h200:8"); }), HasSubstr("chips: v4, v5e, v5p, v6e"));
}

// A host that is not reached so many times, and then a run without processes.
StartAll fails(int64_t times) {
  return [times](int64_t attempt) -> Children {
    if (attempt < times) throw NotNow{"host a is not reached"};
    return {};
  };
}

// Each in a process that has not made one, without what a number of the process might add.
TEST(Supervise, LaunchesOfOneProcessNumberMeetApart) {
  const auto id_of_another = [] {
    int ends[2] = {};
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      std::string id = run_id(0);
      if (const size_t at = id.find(std::to_string(::getpid())); at != std::string::npos) id.erase(at);
      (void)!::write(ends[1], id.data(), id.size());
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    char text[100];
    const ssize_t count = ::read(ends[0], text, sizeof text);
    for (const int end : ends) ::close(end);
    return std::string(text, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  };
  const std::string first = id_of_another();
  EXPECT_THAT(first, ::testing::StartsWith("launch-"));
  EXPECT_NE(first, id_of_another());
  EXPECT_NE(run_id(0), run_id(1));
}

TEST(Supervise, RestartsAreCountedAnewAfterTimeThatWentWell) {
  EXPECT_EQ(supervise(fails(2), 1, "the hosts"), Exit::kPreempted);
  EXPECT_EQ(supervise(fails(2), 1, "the hosts", std::chrono::milliseconds(0)), Exit::kDone);
}

TEST(Supervise, NothingIsStartedOnceASignalCame) {
  for (const auto& [number, exit] : {std::pair(SIGTERM, Exit::kPreempted), std::pair(SIGINT, Exit::kInterrupted)}) {
    const StartAll start = [signal = number](int64_t attempt) -> Children {
      EXPECT_EQ(attempt, 0);
      EXPECT_FALSE(BlockedSignals::requested());
      ::raise(signal);
      if (BlockedSignals::requested()) throw NotNow{};
      return {};
    };
    EXPECT_EQ(supervise(start, 0, "the hosts"), exit);
  }
}

// A run that is asked to regroup, twice, once it says that it runs. `saves`: what it does then, in sh. When it says "stop", who
// launched it presses Ctrl-C.
Exit regroup_twice(const std::string& saves) {
  std::atomic<bool> runs = false;
  const pthread_t launch = ::pthread_self();
  const auto start = [&](int64_t attempt) {
    runs = false;
    ChildOptions options;
    options.name = "process 0";
    options.command = {"sh", "-c",
                       attempt == 2 ? "exit 0" : fmt::format("trap '{}' TERM; echo runs; while :; do sleep 0.02; done", saves)};
    options.on_line = [&runs, launch](const std::string& line) {
      if (line == "stop") ::pthread_kill(launch, SIGINT);
      runs = true;
    };
    Children children;
    children.push_back(std::make_unique<Child>(std::move(options)));
    return children;
  };
  return supervise(start, 0, "the hosts", kSteadyRun, [&] { return std::string(runs ? "host a is back" : ""); });
}

TEST(Supervise, RunsThatRegroupAreStartedAgainWithoutCountingIt) {
  EXPECT_EQ(regroup_twice("exit 75"), Exit::kDone);
  EXPECT_EQ(regroup_twice("kill -KILL $$"), Exit::kPreempted) << "one that was lost counts";
  EXPECT_EQ(regroup_twice("exit 3"), Exit::kData);
  EXPECT_EQ(regroup_twice("exit 0"), Exit::kDone);
}

TEST(Supervise, AProcessThatIsStoppedEndsWhenItIsAsked) {
  const pthread_t launch = ::pthread_self();
  const auto start = [&](int64_t) {
    ChildOptions options;
    options.name = "process 0";
    options.command = {"sh", "-c",
                       "trap 'exit 75' TERM; (sleep 0.3; echo stopped) & kill -STOP $$; while :; do sleep 0.02; done"};
    // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): supervise() takes it
    options.on_line = [launch](const std::string&) { ::pthread_kill(launch, SIGTERM); };
    Children children;
    children.push_back(std::make_unique<Child>(std::move(options)));
    return children;
  };
  EXPECT_EQ(supervise(start, 0, "the hosts"), Exit::kPreempted);
}

TEST(Supervise, RunsThatRegroupStopWhenTheyAreAsked) {
  EXPECT_EQ(regroup_twice("trap \"\" INT; echo stop; sleep 0.2; exit 75"), Exit::kInterrupted);
  // Most likely when its end was noticed already.
  EXPECT_EQ(regroup_twice("(sleep 0.2; echo stop) & exit 75"), Exit::kInterrupted);
}

}  // namespace
}  // namespace tessera::launch
