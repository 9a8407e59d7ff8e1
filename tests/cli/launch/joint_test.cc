// Runs of several processes on a plugin that has collectives between them, as those for GPUs and TPUs have (pjrt/joint_plugin): one
// mesh spans the devices of all.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cli/launched_run.h"
#include "cli/run_program.h"
#include "cluster/group/local_etcd.h"
#include "pjrt/plugin/accelerators.h"
#include "store/servers/buckets.h"
#include "support/bucket_servers.h"
#include "support/joint_plugin.h"
#include "train/control/control_socket.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class JointLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 20);
    write_images(folder_ / "val", 7);
    write_file(folder_ / "tiny.toml", tiny_recipe() + "predictions = true\n");
    fs::create_directory(folder_ / "exchange");
  }

  using Words = std::vector<std::string>;
  static Words with_platform(Words words, const Words& more) {
    words.insert(words.end(), {"--platform", "cuda", "--plugin", testing::joint_plugin_path()});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Words launched(int processes, const std::string& workdir, const Words& more = {}) {
    return with_platform({"launch", "local:" + std::to_string(processes), "--", "train", "tiny.toml", "--workdir", workdir},
                         more);
  }
  static Words alone(const std::string& workdir, const Words& more = {}) {
    return with_platform({"train", "tiny.toml", "--workdir", workdir}, more);
  }
  // GPUs that are not there, one for each process and more.
  std::map<std::string, std::string> environment(int devices, std::map<std::string, std::string> more = {}) const {
    more.merge(testing::joint_plugin_environment(folder_ / "exchange", devices));
    more["CUDA_VISIBLE_DEVICES"] = "0,1,2,3";
    return more;
  }
  Outcome run(const Words& words, int devices, const std::map<std::string, std::string>& more = {}) const {
    return run_program(words, folder_.path(), environment(devices, more));
  }

  std::string weights(const std::string& workdir, const std::string& step) const { return weights_of(folder_ / workdir, step); }
  // Of any checkpoint, whoever wrote which part.
  std::string exported(const std::string& run) const {
    const std::string to = "exported-" + std::to_string(exports_++);
    const Outcome outcome = run_program({"export", "--from", run, "--to", to, "--format", "timm"}, folder_.path());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return read_file(folder_ / to / "model.safetensors");
  }
  double loss(const std::string& workdir) const {
    std::ifstream file(folder_ / workdir / "metrics.jsonl");
    double last = 0;
    for (std::string line; std::getline(file, line);) last = Json::parse(line).value("training_loss", last);
    return last;
  }

  TempFolder folder_;
  mutable int exports_ = 0;
};

TEST_F(JointLaunch, EndsWithTheBytesOfOneProcess) {
  write_file(folder_ / "val/left/broken.png", "no image");
  const Outcome one = run(alone("one"), 4);
  ASSERT_EQ(one.exit, 0) << one.err;
  const Outcome two = run(launched(2, "two"), 2);
  ASSERT_EQ(two.exit, 0) << two.err;
  EXPECT_THAT(two.err, HasSubstr("4 devices   mesh replica=4"));
  // Plugins list devices in orders of their own.
  const Outcome four = run(launched(4, "four"), 1, {{"TESSERA_JOINT_SHUFFLED", "1"}});
  ASSERT_EQ(four.exit, 0) << four.err;
  ASSERT_FALSE(weights("one", "06").empty());
  for (const char* many : {"two", "four"}) {
    EXPECT_TRUE(weights(many, "06") == weights("one", "06")) << many;
    EXPECT_TRUE(weights(many, "03") == weights("one", "03")) << many;
    EXPECT_EQ(loss(many), loss("one")) << many;
    const Json hosts = Json::parse(read_file(folder_ / many / "hosts.json"));
    EXPECT_FALSE(hosts["processes"][0].contains("peer_wait")) << "only the plugin knows it";
    for (const char* kind : {".jsonl", ".skipped.jsonl"}) {
      const auto rows = [&](const char* run) { return read_file(folder_ / run / (std::string("evals/val_000000006") + kind)); };
      EXPECT_FALSE(rows("one").empty()) << kind;
      EXPECT_EQ(rows(many), rows("one")) << kind;
    }
  }
}

// Masks of dropout, mixed images and micro-batches are those of the whole batch.
TEST_F(JointLaunch, WhatIsDrawnForRowsIsThatOfTheWholeBatch) {
  std::string text = tiny_recipe();
  const auto put = [&](const std::string& from, const std::string& to) { text.replace(text.find(from), from.size(), to); };
  put("total = \"6 steps\"",
      "total = \"3 steps\"\naverage = { decay = 0.9 }\naccumulate = 2\nmonitor = { sinks = [\"tensorboard\"], histograms = \"2 "
      "steps\" }");
  put("batch = 4", "batch = 8");
  put("threads = 1 }", "threads = 1, mixup = { mixup = 0.8, cutmix = 1.0 } }");
  put("pool = \"gap\"", "pool = \"gap\", dropout = 0.1");
  write_file(folder_ / "tiny.toml", text);
  const Outcome one = run(alone("one", {"mesh=replica=2, fsdp=2"}), 4);
  ASSERT_EQ(one.exit, 0) << one.err;
  const Outcome two = run(launched(2, "two", {"mesh=replica=2, fsdp=2"}), 2);
  ASSERT_EQ(two.exit, 0) << two.err;
  ASSERT_FALSE(weights("one", "03").empty());
  EXPECT_TRUE(weights("two", "03") == weights("one", "03"));
  EXPECT_EQ(loss("two"), loss("one"));
}

TEST_F(JointLaunch, AStateThatIsSplitOverProcessesIsSavedByAll) {
  const Words split = {"mesh=fsdp=-1", "sharding.rules=[\".* = fsdp(min_size=1)\"]", "total=60 steps",
                       "checkpoint.every=20 steps", "eval.val.every=30 steps"};
  const Outcome one = run(alone("one", split), 2);
  ASSERT_EQ(one.exit, 0) << one.err;

  // A signal, and then a kill: all write what they have, and all go on.
  RunningProgram first(launched(2, "two", split), folder_.path(), environment(1));
  await_step(first, folder_ / "two", 6);
  first.send(SIGTERM);
  const Outcome stopped = first.wait();
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("which is saved"));
  const Outcome rest = run(launched(2, "two", split), 1);
  ASSERT_EQ(rest.exit, 0) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("continues"));
  EXPECT_TRUE(weights("two", "60").empty()) << "each process writes files of its own";
  EXPECT_TRUE(exported("two") == exported("one"));
  EXPECT_EQ(loss("two"), loss("one"));

  // Another number of processes reads it as well, and so does one.
  Words longer = split;
  longer[2] = "total=80 steps";
  const Outcome four = run(launched(4, "two", longer), 1);
  EXPECT_EQ(four.exit, 0) << four.err;
  longer[2] = "total=90 steps";
  const Outcome last = run(alone("two", longer), 2);
  EXPECT_EQ(last.exit, 0) << last.err;
}

#ifdef TESSERA_HAS_BUCKETS
TEST_F(JointLaunch, AStateThatIsSplitOverProcessesIsSavedToABucketByAll) {
  fs::create_directory(folder_ / "bucket");
  const testing::BucketServers servers(folder_ / "bucket");
  const std::string cache = folder_ / "cache";
  std::map<std::string, std::string> with_cache = servers.environment();
  with_cache["TESSERA_CACHE_DIR"] = cache;
  const Words split = {"mesh=fsdp=-1",         "sharding.rules=[\".* = fsdp(min_size=1)\"]",
                       "total=60 steps",       "checkpoint.every=20 steps",
                       "checkpoint.best=none", "eval.val.every=30 steps",
                       "checkpoint.keep=2"};
  const Outcome one = run(alone("one", split), 2);
  ASSERT_EQ(one.exit, 0) << one.err;
  fs::create_directories(fs::path(cache) / "spool");
  const std::string elsewhere = fs::path(cache) / "spool" / "another-machine-1.tmp-999999999";
  std::ofstream(elsewhere) << "on its way";
  // Where both kinds of server differ: tests/checkpoint, Servers/Claims and RunCopyTest.
  const std::string url = "gs://data/split";
  const auto commit = [&](int step) { return fmt::format("{}/checkpoints/step_{:09}/COMMIT", url, step); };
  // A signal, after which all go on from what all have written.
  RunningProgram first(launched(2, url, split), folder_.path(), environment(1, with_cache));
  while (first.running() && !store::read_object(commit(20))) ::usleep(10'000);
  first.send(SIGTERM);
  const Outcome stopped = first.wait();
  EXPECT_THAT(stopped.exit, ::testing::AnyOf(75, 0)) << stopped.err;
  const Outcome rest = run(launched(2, url, split), 1, with_cache);
  ASSERT_EQ(rest.exit, 0) << rest.err;
  std::string part;  // the last one, of process 1: each writes objects of its own
  for (const store::FileInfo& file : store::files_at(url).list(url + "/checkpoints/step_000000060"))
    part = file.name.ends_with(".safetensors") ? file.name : part;
  const std::string parts = url + "/checkpoints/step_000000060/" + part;
  ASSERT_TRUE(store::read_object(parts));
  EXPECT_FALSE(store::read_object(commit(20))) << "the leader removes what the recipe does not keep";
  EXPECT_TRUE(store::read_object(url + "/metrics.jsonl"));
  const auto export_there = [&](const std::string& to) {
    const Outcome outcome = run_program({"export", "--from", url + "@60", "--to", to, "--format", "timm", "--cache-dir", cache},
                                        folder_.path(), with_cache);
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return read_file(folder_ / to / "model.safetensors");
  };
  EXPECT_TRUE(export_there("exported-gs") == exported("one"));

  // A part that is damaged is noticed by the process that needs it, and all go on from the checkpoint before. The step is saved
  // again beside what is there.
  std::string damaged = *store::read_object(parts);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  store::write_object(parts, damaged);
  const Outcome again = run(launched(2, url, split), 1, with_cache);
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(::testing::ContainsRegex("step 60 in `gs://data/split` is passed over: process [01]: "),
                               HasSubstr("from step ")));
  EXPECT_TRUE(store::read_object(url + "/checkpoints/step_000000060/r2-" + part));
  EXPECT_FALSE(store::read_object(parts));
  EXPECT_TRUE(export_there("exported-again") == exported("one"));

  // What a process leaves that is killed in the middle of a save is not read; other processes, and one, go on from the one
  // before, of step 40 or of the signal.
  store::remove_object(commit(60));
  Words longer = split;
  longer[2] = "total=80 steps";
  const Outcome four = run(launched(4, url, longer), 1, with_cache);
  EXPECT_EQ(four.exit, 0) << four.err;
  EXPECT_THAT(four.err, ::testing::ContainsRegex("from step [45][0-9] of 80"));
  EXPECT_TRUE(store::read_object(commit(80)));
  EXPECT_FALSE(store::read_object(parts)) << "what the other processes left of the step";
  longer[2] = "total=90 steps";
  const Outcome last = run(alone(url, longer), 2, with_cache);
  EXPECT_EQ(last.exit, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr("from step 80 of 90"));
  EXPECT_TRUE(fs::exists(elsewhere)) << "what another machine is sending";
}
#endif

// Two hosts, one process on each, which name their workdir alike: `run` on the first host's disk, `others` on the second's.
class JointLaunchOnHosts : public JointLaunch {
 protected:
  void SetUp() override {
    JointLaunch::SetUp();
    fs::create_directory(folder_ / "others");
    fs::create_directory(folder_ / "run");
    if (std::system((here() + " && unshare -m mount --bind others run 2>/dev/null").c_str()) != 0)
      GTEST_SKIP() << "mount namespaces are not permitted";
  }

  struct Ended {
    int first = 0, second = 0;  // exit codes
    std::string err, others_err;
  };
  // `start` tells the starts apart.
  Ended train(int steps, const std::string& start) const {
    const auto process = [&](const std::string& id) {
      Words words = with_platform({"train", "tiny.toml", "--workdir", "run", "--num-processes", "2", "--process-id", id,
                                   "--coordinator-address", etcd_.address(), "--run-id", start},
                                  kSplit);
      words.push_back(fmt::format("total={} steps", steps));
      return words;
    };
    const auto with_gpu = [&](const std::string& gpu) {  // as launch gives each of them its own
      std::map<std::string, std::string> variables = environment(1, {{"TESSERA_CACHE_DIR", testing::cache_path()}});
      variables["CUDA_VISIBLE_DEVICES"] = gpu;
      return variables;
    };
    std::string command = here() + " &&";
    for (const auto& [name, value] : with_gpu("1")) command += fmt::format(" {}='{}'", name, value);
    command += fmt::format(" unshare -m sh -c 'mount --bind others run && exec \"$@\"' sh '{}'", testing::program_path());
    for (const std::string& word : process("1")) command += fmt::format(" '{}'", word);
    RunningProgram first(process("0"), folder_.path(), with_gpu("0"));
    const int second = WEXITSTATUS(std::system((command + " > out 2>&1").c_str()));
    const Outcome outcome = first.wait();
    return {outcome.exit, second, outcome.err, read_file(folder_ / "out")};
  }
  // What the hosts have of a step, in one directory.
  std::string collected(const std::string& step) const {
    const fs::path to = folder_ / ("collected-" + step) / "checkpoints" / ("step_0000000" + step);
    fs::create_directories(to);
    for (const char* host : {"run", "others"}) {
      for (const auto& file : fs::directory_iterator(folder_ / host / "checkpoints" / to.filename()))
        fs::copy_file(file.path(), to / file.path().filename(), fs::copy_options::overwrite_existing);
    }
    return to;
  }
  std::vector<std::string> files_of(const std::string& host, const std::string& step) const {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(folder_ / host / "checkpoints" / ("step_0000000" + step)))
      names.push_back(file.path().filename());
    std::ranges::sort(names);
    return names;
  }

  const group::LocalEtcd etcd_;
  const Words kSplit = {"mesh=fsdp=-1", "sharding.rules=[\".* = fsdp(min_size=1)\"]", "checkpoint.keep=2"};

 private:
  std::string here() const { return "cd " + folder_.path().string(); }
};

TEST_F(JointLaunchOnHosts, EachHasADirectoryOfItsOwn) {
  Words alone_words = kSplit;
  alone_words.emplace_back("total=12 steps");
  const Outcome one = run(alone("one", alone_words), 2);
  ASSERT_EQ(one.exit, 0) << one.err;

  const Ended begun = train(6, "begun");
  ASSERT_EQ(begun.first, 0) << begun.err;
  ASSERT_EQ(begun.second, 0) << begun.others_err;
  for (const char* host : {"run", "others"}) {
    const std::vector<std::string> names = files_of(host, "06");
    EXPECT_THAT(names, ::testing::IsSupersetOf({"COMMIT", "state.json"})) << host;
    EXPECT_EQ(names.size(), std::string(host) == "run" ? 4u : 3u) << "one of them has what both hold besides";
  }
  const Outcome here = run_program({"export", "--from", "run", "--to", "exported", "--format", "timm"}, folder_.path());
  EXPECT_EQ(here.exit, 3);
  EXPECT_THAT(here.err, AllOf(HasSubstr("has the files of one host: 1 of the checkpoint's 4 are on other hosts"),
                              HasSubstr("copy what this directory has on each host of the run into one")));

  // In the same places, and then each on the other's host, so that all of the state changes places.
  const Ended further = train(9, "further");
  ASSERT_EQ(further.first, 0) << further.err;
  EXPECT_THAT(further.err, HasSubstr("from step 6 of 9"));
  fs::rename(folder_ / "run/checkpoints", folder_ / "first");
  fs::rename(folder_ / "others/checkpoints", folder_ / "run/checkpoints");
  fs::rename(folder_ / "first", folder_ / "others/checkpoints");
  const Ended last = train(12, "last");
  ASSERT_EQ(last.first, 0) << last.err << last.others_err;
  EXPECT_THAT(last.err, HasSubstr("from step 9 of 12"));
  EXPECT_TRUE(exported(collected("12")) == exported("one"));
}

TEST_F(JointLaunchOnHosts, WhatIsDamagedIsPassedOverAndWhatIsElsewhereIsNot) {
  ASSERT_EQ(train(6, "begun").first, 0);
  // One byte is another: it is noticed by the host that has it.
  const fs::path part = folder_ / "others/checkpoints/step_000000006" / files_of("others", "06")[1];
  std::string damaged = read_file(part);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  write_file(part, damaged);
  const Ended further = train(9, "further");
  ASSERT_EQ(further.first, 0) << further.err;
  EXPECT_THAT(further.err,
              AllOf(HasSubstr("step 6 in"), HasSubstr("no host has it as it was written"), HasSubstr("from step 3 of 9")));
  EXPECT_THAT(files_of("others", "09"), ::testing::Contains("COMMIT"));
  for (const char* host : {"run", "others"})
    EXPECT_TRUE(fs::exists(folder_ / host / "checkpoints/step_000000006.damaged")) << host;

  // The rest may be on a host that does not take part: nothing is changed.
  const fs::path other = folder_ / "others/checkpoints/step_000000009" / files_of("others", "09")[1];
  fs::rename(other, folder_ / "elsewhere");
  const Ended without = train(12, "without");
  EXPECT_EQ(without.first, 3) << without.err;
  EXPECT_EQ(without.second, 3) << without.others_err;
  EXPECT_THAT(without.err,
              AllOf(HasSubstr("is on no host of the 2 processes"), HasSubstr("start on all hosts that wrote the checkpoint")));
  fs::rename(folder_ / "elsewhere", other);
  const Ended again = train(12, "again");
  EXPECT_THAT(again.err, HasSubstr("from step 9 of 12"));

  // The first process's COMMIT says which checkpoints count.
  fs::remove_all(folder_ / "run/checkpoints");
  const Ended lost = train(15, "lost");
  EXPECT_EQ(lost.first, 3) << lost.err;
  EXPECT_THAT(lost.err, HasSubstr("process 0 has no checkpoint of the run, and process 1 has those of steps"));
}

TEST_F(JointLaunch, ACheckpointThatIsAskedForIsWrittenByAll) {
  const Words split = {"mesh=fsdp=-1", "total=100000 epochs", "checkpoint.every=100000 epochs", "eval.val.every=100000 epochs"};
  RunningProgram running(launched(2, "asked", split), folder_.path(), environment(1));
  await_step(running, folder_ / "asked", 6);
  const auto saved = train::ask_run(folder_ / "asked", {{"do", "checkpoint"}});
  EXPECT_TRUE(saved.at("ok").get<bool>());
  EXPECT_TRUE(fs::exists(folder_ / "asked" / saved.at("path").get<std::string>() / "COMMIT"));
  train::ask_run(folder_ / "asked", {{"do", "stop"}});
  EXPECT_EQ(running.wait().exit, 130) << running.err();
}

// Whoever started them says how many are on this machine: else each would take all of its GPUs.
TEST_F(JointLaunch, ProcessesOfMpirunDivideTheGpusOfAMachine) {
  const int count = pjrt::nvidia_gpus() + 2;  // so many that they can't, and say so
  std::string command = "cd " + folder_.path().string() + " && unset CUDA_VISIBLE_DEVICES &&";
  for (const auto& [name, value] : testing::joint_plugin_environment(folder_ / "exchange"))
    command.append(" ").append(name).append("='").append(value).append("'");
  command += " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TESSERA_CACHE_DIR=" + testing::cache_path() +
             " mpirun --quiet --oversubscribe --bind-to none -np " + std::to_string(count) + " " + testing::program_path() +
             " train tiny.toml --workdir run --platform cuda --plugin " + testing::joint_plugin_path() + " > out 2>&1";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
  EXPECT_THAT(read_file(folder_ / "out"),
              HasSubstr("can't be divided over " + std::to_string(count) + " processes of this machine"));
}

TEST_F(JointLaunch, SaysWhatCannotBe) {
  const Outcome tensor = run(launched(2, "run", {"mesh=tensor=2, replica=2"}), 2);
  EXPECT_EQ(tensor.exit, 2);
  EXPECT_THAT(tensor.err,
              AllOf(HasSubstr("gives several of them the same rows of a batch"), HasSubstr("name replica and fsdp first")));
  const Outcome counted = run(launched(2, "run", {"--devices", "1"}), 2);
  EXPECT_EQ(counted.exit, 2);
  EXPECT_THAT(counted.err, HasSubstr("CUDA_VISIBLE_DEVICES says which GPUs a process sees"));
  const Outcome gpus = run(launched(3, "run"), 1);
  EXPECT_EQ(gpus.exit, 2);
  EXPECT_THAT(gpus.err, HasSubstr("4 GPUs can't be divided over 3 processes of this machine"));
  const Outcome chips = run_program({"launch", "local:2", "--", "train", "tiny.toml", "--platform", "tpu"}, folder_.path());
  EXPECT_EQ(chips.exit, 2);
  EXPECT_THAT(chips.err, HasSubstr("one process drives all TPU chips of a machine"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace tessera::cli
