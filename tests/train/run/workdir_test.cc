// What a run does with a workdir that somebody has changed behind its back.

#include "train/workdir/workdir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/snapshots.h"
#include "recipe/run_identity.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Of these tests alone, whose workdirs have names that others use too.
testing::SmallRun& small_run() {
  static testing::SmallRun run;
  return run;
}

// A finished run with every second checkpoint kept, which each test copies.
const std::vector<std::string> kEverySecond{"checkpoint.every=2 steps", "checkpoint.keep=99"};
void copy_whole(const std::string& name) {
  static const TrainResult whole = small_run().train("whole", kEverySecond);
  EXPECT_EQ(whole.exit, Exit::kDone);
  fs::copy(small_run().path("whole"), small_run().path(name), fs::copy_options::recursive);
}

void damage(const std::string& path) {
  std::string bytes = testing::slurp(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  testing::spill(path, bytes);
}

TEST(Workdir, ADamagedCheckpointIsPutAside) {
  copy_whole("damaged");
  for (const int64_t step : {10, 12}) damage(small_run().step_of("damaged", step) + "/state.safetensors");
  const std::string bytes = testing::slurp(small_run().step_of("damaged", 12) + "/state.safetensors");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(small_run().train("damaged", kEverySecond).exit, Exit::kDone);
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const int64_t step : {10, 12}) {
    EXPECT_THAT(said,
                HasSubstr(fmt::format("it is now `{}.damaged`, which nothing reads", small_run().step_of("damaged", step))));
  }
  EXPECT_EQ(testing::slurp(small_run().step_of("damaged", 12) + ".damaged/state.safetensors"), bytes);
  EXPECT_EQ(small_run().weights_of("damaged", 12), small_run().weights_of("whole", 12));
}

// What it wrote when it was killed goes with the next start; what others have, or still write, stays.
TEST(Workdir, LeftoversOfAKilledRunAreRemoved) {
  copy_whole("leftovers");
  const std::string path = small_run().path("leftovers");
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string of_dead = fmt::format(".tmp-{}", dead), of_other = fmt::format(".tmp-{}", ::getppid());
  const std::vector<std::string> gone = {"run.json" + of_dead, "hosts.json" + of_dead, "evals/val.last.json" + of_dead,
                                         "evals/val_000000012.skipped.jsonl" + of_dead, "report/index.html" + of_dead};
  const std::vector<std::string> kept = {"run.json" + of_other,    "notes.tmp-",
                                         "notes.tmp-12x",          "link/run.json" + of_dead,
                                         "draft" + of_dead,        "notes/run.json" + of_dead,
                                         "report/draft" + of_dead, "evals/notes/val.last.json" + of_dead,
                                         "bad_batches/x" + of_dead};
  fs::create_directory(path + "-elsewhere");
  fs::create_directory_symlink(path + "-elsewhere", path + "/link");
  for (const auto* names : {&gone, &kept}) {
    for (const std::string& name : *names) {
      fs::create_directories(fs::path(path + "/" + name).parent_path());
      testing::spill(path + "/" + name, "");
    }
  }
  small_run().train("leftovers", kEverySecond);
  for (const std::string& name : gone) EXPECT_FALSE(fs::exists(path + "/" + name)) << name;
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(path + "/" + name)) << name;
}

// Links in the places of a leftover, of a step without COMMIT, of one that the keep rules remove, and of one that is saved
// again.
TEST(Workdir, LinksAmongTheCheckpointsCostNothingElsewhere) {
  copy_whole("linked");
  const std::string precious = small_run().path("precious"), elsewhere = small_run().path("elsewhere");
  for (const char* name : {"thesis.tex", "state.json"}) {
    fs::create_directories(precious);
    testing::spill(precious + "/" + name, "precious");
  }
  fs::rename(small_run().step_of("linked", 4), elsewhere);
  fs::remove_all(small_run().step_of("linked", 12));
  fs::create_directory_symlink(precious, small_run().step_of("linked", 10) + ".tmp-999999999");
  fs::create_directory_symlink(precious, small_run().step_of("linked", 1));
  fs::create_directory_symlink(elsewhere, small_run().step_of("linked", 4));
  fs::create_directory_symlink(precious, small_run().step_of("linked", 12));
  EXPECT_EQ(small_run().train("linked", {"checkpoint.every=2 steps", "checkpoint.keep=1", "checkpoint.best=none"}).exit,
            Exit::kDone);
  for (const char* name : {"thesis.tex", "state.json"}) EXPECT_EQ(testing::slurp(precious + "/" + name), "precious");
  EXPECT_TRUE(fs::exists(elsewhere + "/COMMIT"));
  EXPECT_EQ(small_run().weights_of("linked", 12), small_run().weights_of("whole", 12));
  EXPECT_TRUE(fs::is_symlink(small_run().step_of("linked", 12) + ".damaged"));
  for (const auto& path : {small_run().step_of("linked", 10) + ".tmp-999999999", small_run().step_of("linked", 1),
                           small_run().step_of("linked", 4)}) {
    EXPECT_FALSE(fs::is_symlink(path)) << path;
  }
}

TEST(Workdir, AnotherRunsCheckpointIsRefusedByName) {
  copy_whole("mixed");
  small_run().train("other", {"seed=1", "checkpoint.every=0 steps"});
  fs::remove_all(small_run().step_of("mixed", 12));
  fs::copy(small_run().step_of("other", 12), small_run().step_of("mixed", 12), fs::copy_options::recursive);
  const std::string message = small_run().failure("mixed", kEverySecond, Exit::kData);
  EXPECT_THAT(message, AllOf(HasSubstr("is another run's"), HasSubstr("seed = 1   here: 0"), HasSubstr("step_000000012"),
                             HasSubstr("move it away"), Not(HasSubstr("checkpoint."))));
  fs::rename(small_run().step_of("mixed", 12), small_run().path("moved away"));
  EXPECT_EQ(small_run().train("mixed", kEverySecond).exit, Exit::kDone);
  EXPECT_EQ(small_run().weights_of("mixed", 12), small_run().weights_of("whole", 12));
}

TEST(Workdir, ACheckpointOfOtherDataIsRefused) {
  testing::make_images(small_run().path("own"), 60, 1);
  const std::string own = fmt::format("data.source=folder({})", small_run().path("own"));
  small_run().train("other_data", {own});
  testing::spill(small_run().path("own") + "/red/more.png", testing::slurp(small_run().path("own") + "/red/002.png"));
  EXPECT_THAT(small_run().failure("other_data", {own}, Exit::kData),
              AllOf(HasSubstr("data of 60 samples   here: 61\n  1 image is new: red/more.png\n"), Not(HasSubstr("gone")),
                    HasSubstr("data.on_change=accept")));
  fs::remove(small_run().path("own") + "/red/005.png");
  EXPECT_THAT(small_run().failure("other_data", {own}, Exit::kData),
              HasSubstr("data of 60 samples with other names, classes or labels than here\n  1 image is new: red/more.png\n"
                        "  1 image is gone: red/005.png\n"));
  // Where the list of names is gone, the rest is said all the same.
  fs::rename(small_run().path("other_data") + "/data_names.txt", small_run().path("names"));
  EXPECT_THAT(small_run().failure("other_data", {own}, Exit::kData),
              AllOf(HasSubstr("data of 60 samples with other names"), Not(HasSubstr("is new"))));
  fs::rename(small_run().path("names"), small_run().path("other_data") + "/data_names.txt");
  fs::rename(small_run().path("own") + "/red/more.png", small_run().path("own") + "/red/005.png");
  EXPECT_EQ(small_run().train("other_data", {own}).exit, Exit::kDone);
}

TEST(Workdir, OtherDataAreTakenWhereTheRecipeAcceptsThem) {
  testing::make_images(small_run().path("growing"), 60, 1);
  const std::string own = fmt::format("data.source=folder({})", small_run().path("growing")), accept = "data.on_change=accept";
  small_run().train("grown", {own});
  for (const char* name : {"a.png", "b.png"})
    fs::copy(small_run().path("growing") + "/red/002.png", small_run().path("growing") + "/red/" + name);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(small_run().train("grown", {own, accept, "total=16 steps"}).step, 16);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), AllOf(HasSubstr("note: the training data changed"),
                                                              HasSubstr("here: 62\n  2 images are new: red/a.png, red/b.png")));
  // From now on these are its data.
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(small_run().train("grown", {own, "total=18 steps"}).step, 18);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("data changed")));
  fs::remove(small_run().path("growing") + "/red/a.png");
  EXPECT_THAT(small_run().failure("grown", {own, "total=20 steps"}, Exit::kData), HasSubstr("1 image is gone: red/a.png"));
  // Another class is another model.
  fs::create_directory(small_run().path("growing") + "/yellow");
  fs::copy(small_run().path("growing") + "/red/002.png", small_run().path("growing") + "/yellow/0.png");
  EXPECT_THAT(small_run().failure("grown", {own, accept, "total=20 steps"}, Exit::kData),
              AllOf(HasSubstr("4 classes"), HasSubstr("blue, green, red   here: blue, green, red, yellow")));
}

TEST(Workdir, LabelsOfATableThatChangedAreNoticed) {
  const std::string table = small_run().path("table.csv");
  std::string lines = "image,label\n";
  const char* names[] = {"blue", "green", "red"};
  for (int i = 0; i < 24; ++i) lines += fmt::format("{0}/{1:03}.png,{0}\n", names[i % 3], i);
  testing::spill(table, lines);
  const std::string own = fmt::format("data.source=csv({}, root={})", table, small_run().path("train"));
  small_run().train("table", {own});
  std::string other = lines;
  other.replace(other.find("000.png,blue"), 12, "000.png,red");
  testing::spill(table, other);
  EXPECT_THAT(small_run().failure("table", {own, "total=14 steps"}, Exit::kData), HasSubstr("data of 24 samples with other"));
  testing::spill(table, lines);
  EXPECT_EQ(small_run().train("table", {own, "total=14 steps"}).exit, Exit::kDone);
}

TEST(Workdir, OtherImagesOfAnEvaluatorAreAWarning) {
  testing::make_images(small_run().path("scored"), 21, 2);
  const std::string own = fmt::format("eval.val.data.source=folder({})", small_run().path("scored"));
  small_run().train("other_scores", {own});
  fs::remove(small_run().path("scored") + "/red/005.png");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(small_run().train("other_scores", {own, "total=14 steps"}).exit, Exit::kDone);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("warning: the data of `eval.val` are others than before"));
}

// Checkpoints of versions before runs had names.
TEST(Workdir, ACheckpointThatDoesNotSayWhoseItIsIsTaken) {
  copy_whole("old");
  for (const int64_t step : {8, 10, 12}) fs::remove_all(small_run().step_of("old", step));
  {
    const checkpoint::LoadedCheckpoint six = checkpoint::load(small_run().step_of("old", 6));
    EXPECT_EQ(six.run.size(), 32u);
    std::vector<checkpoint::HostTensor> tensors;
    for (const checkpoint::TensorView& tensor : checkpoint::whole_arrays(six.arrays).views) {
      tensors.push_back({tensor.name, tensor.type, store::copy_bytes(tensor.data)});
    }
    checkpoint::Snapshot snapshot;
    snapshot.step = 6;
    snapshot.add(std::move(tensors));
    nlohmann::ordered_json state = nlohmann::ordered_json::parse(six.state_json);
    state.erase("data");
    snapshot.state_json = state.dump();
    checkpoint::write_checkpoint(store::local_files(), small_run().path("old") + "/checkpoints", snapshot);
  }
  EXPECT_EQ(checkpoint::load(small_run().step_of("old", 6)).run, "");
  EXPECT_EQ(small_run().train("old", kEverySecond).exit, Exit::kDone);
  EXPECT_EQ(small_run().weights_of("old", 12), small_run().weights_of("whole", 12));
}

TEST(Workdir, AMissingRecipeIsRestoredFromTheNewestCheckpoint) {
  copy_whole("no_recipe");
  const std::string path = small_run().path("no_recipe") + "/recipe.toml", text = testing::slurp(path);
  fs::remove(path);
  fs::remove_all(small_run().step_of("no_recipe", 12));
  EXPECT_THAT(small_run().failure("no_recipe", {"seed=1"}, Exit::kUsage), HasSubstr("seed = 1   there: 0"));
  EXPECT_EQ(testing::slurp(path), text);
  fs::remove(path);
  EXPECT_EQ(small_run().train("no_recipe", kEverySecond).exit, Exit::kDone);
  EXPECT_EQ(testing::slurp(path), text);
  EXPECT_EQ(small_run().weights_of("no_recipe", 12), small_run().weights_of("whole", 12));
}

TEST(Workdir, ARunWhoseCheckpointsAreGoneIsNotStartedAfresh) {
  copy_whole("gone");
  const std::string run = small_run().path("gone"), metrics = testing::slurp(run + "/metrics.jsonl");
  fs::remove_all(run + "/checkpoints");
  EXPECT_THAT(small_run().failure("gone", kEverySecond, Exit::kData),
              AllOf(HasSubstr("checkpoints` is missing, and metrics.jsonl goes to step 12"), HasSubstr("to start afresh")));
  fs::create_directory(run + "/checkpoints");
  EXPECT_THAT(small_run().failure("gone", kEverySecond, Exit::kData),
              HasSubstr("checkpoints` has none, and metrics.jsonl goes to step 12"));
  EXPECT_EQ(testing::slurp(run + "/metrics.jsonl"), metrics);
  fs::rename(run + "/metrics.jsonl", small_run().path("kept.jsonl"));
  EXPECT_EQ(small_run().train("gone", kEverySecond).exit, Exit::kDone);
  EXPECT_EQ(small_run().weights_of("gone", 12), small_run().weights_of("whole", 12));
}

// Does something to the workdir of a run that has written its line of step 2. Many saves follow.
struct Meanwhile {
  Meanwhile(const std::string& workdir, std::function<void(const std::string& path)> action)
      : thread_([this, path = small_run().path(workdir), action = std::move(action)] {
          while (!over_ && testing::slurp(path + "/metrics.jsonl").find("{\"step\":2,") == std::string::npos) {
            std::this_thread::yield();
          }
          if (!over_) action(path);
        }) {}
  ~Meanwhile() {
    over_ = true;
    thread_.join();
  }
  std::atomic<bool> over_{false};
  std::thread thread_;
};

struct Disturbed {
  Exit exit = Exit::kDone;
  std::string said;
};

Disturbed train_disturbed(const std::string& workdir, const std::function<void(const std::string& path)>& action) {
  const Meanwhile meanwhile(workdir, action);
  ::testing::internal::CaptureStderr();
  Disturbed outcome;
  try {
    outcome.exit =
        small_run()
            .train(workdir, {"total=400 steps", "optimizer.lr=3e-3", "checkpoint.every=10 steps", "eval.val.every=400 steps"})
            .exit;
  } catch (const Error& error) {
    outcome.exit = error.code();
    outcome.said = error.what();
  }
  outcome.said += ::testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(WorkdirMeanwhile, RenamedIsToldAndNotMadeAgain) {
  const Disturbed run = train_disturbed("renamed", [](const std::string& path) { fs::rename(path, path + ".moved"); });
  EXPECT_EQ(run.exit, Exit::kData);
  EXPECT_THAT(run.said, HasSubstr("/checkpoints` was removed or renamed meanwhile"));
  EXPECT_FALSE(fs::exists(small_run().path("renamed")));
  EXPECT_TRUE(fs::exists(small_run().path("renamed.moved") + "/metrics.jsonl"));
}

TEST(WorkdirMeanwhile, ReplacedIsToldAndTheNewOneStaysEmpty) {
  const Disturbed run = train_disturbed("replaced", [](const std::string& path) {
    fs::rename(path, path + ".moved");
    fs::create_directories(path + "/checkpoints");
  });
  EXPECT_EQ(run.exit, Exit::kData);
  EXPECT_THAT(run.said, HasSubstr("meanwhile, and nothing is written in its place"));
  EXPECT_TRUE(fs::is_empty(small_run().path("replaced") + "/checkpoints"));
  EXPECT_EQ(std::distance(fs::directory_iterator(small_run().path("replaced")), {}), 1);
}

// The checkpoints went along, so that only the workdir's own identity tells.
TEST(WorkdirMeanwhile, ReplacedAroundItsCheckpointsIsToldToo) {
  const Disturbed run = train_disturbed("around", [](const std::string& path) {
    fs::rename(path, path + ".moved");
    fs::create_directory(path);
    fs::rename(path + ".moved/checkpoints", path + "/checkpoints");
  });
  EXPECT_EQ(run.exit, Exit::kData);
  EXPECT_THAT(run.said, HasSubstr("the workdir `"));
  EXPECT_FALSE(fs::exists(small_run().path("around") + "/metrics.jsonl"));
}

TEST(WorkdirMeanwhile, MetricsRemovedOrCutAreTold) {
  const struct {
    const char *name, *word;
    std::function<void(const std::string&)> action;
  } cases[] = {{"metrics_removed", "removed", [](const std::string& path) { fs::remove(path); }},
               {"metrics_cut", "cut", [](const std::string& path) { fs::resize_file(path, 5); }},
               {"metrics_replaced", "replaced", [](const std::string& path) {
                  testing::spill(path + ".new", testing::slurp(path));
                  fs::rename(path + ".new", path);
                }}};
  for (const auto& c : cases) {
    const Disturbed run = train_disturbed(c.name, [&](const std::string& path) { c.action(path + "/metrics.jsonl"); });
    EXPECT_EQ(run.exit, Exit::kData);
    EXPECT_THAT(run.said, HasSubstr(fmt::format("metrics.jsonl` was {} while the run goes on", c.word)));
    // Whole lines follow, and the run is saved.
    std::istringstream lines(testing::slurp(small_run().path(c.name) + "/metrics.jsonl"));
    int64_t last = 0;
    for (std::string line; std::getline(lines, line);) last = nlohmann::json::parse(line)["step"];
    EXPECT_EQ(last, 400);
    EXPECT_TRUE(fs::exists(small_run().step_of(c.name, 400) + "/COMMIT"));
  }
}

TEST(WorkdirMeanwhile, ALockThatWasRemovedIsTakenAgain) {
  const Disturbed run = train_disturbed("unlocked", [](const std::string& path) { fs::remove(path + "/.lock"); });
  EXPECT_EQ(run.exit, Exit::kDone);
  EXPECT_THAT(run.said, HasSubstr(".lock` was removed or replaced while the run goes on; the workdir is locked again"));
  EXPECT_TRUE(fs::exists(small_run().path("unlocked") + "/.lock"));
}

TEST(WorkdirMeanwhile, ARunEndsWhereAnotherBeganInItsWorkdir) {
  std::unique_ptr<store::DirectoryLock> second;
  const Disturbed run = train_disturbed("stolen", [&](const std::string& path) {
    // By one rename, so that the run can't take it in between.
    fs::create_directory(path + ".second");
    second = std::make_unique<store::DirectoryLock>(path + ".second");
    fs::rename(path + ".second/.lock", path + "/.lock");
  });
  EXPECT_EQ(run.exit, Exit::kData);
  EXPECT_THAT(run.said, AllOf(HasSubstr("`.lock` was removed while the run goes on"), HasSubstr("is in use by process"),
                              HasSubstr("this one ends")));
}

TEST(RunName, DependsOnWhatFixesTheNumbers) {
  const state::RunDescription run{"seed = 0\ntotal = \"4 steps\"\nlog = \"1 steps\"\n", {}, {}, "", {60, "1f"}};
  const std::string name = recipe::run_name(run);
  EXPECT_EQ(name.size(), 32u);
  state::RunDescription other = run;
  other.recipe = "total = \"9 steps\"\nseed = 0\ncheckpoint = { every = \"1 steps\" }\n";
  EXPECT_EQ(recipe::run_name(other), name) << "keys that may change, and the order of keys, don't matter";
  other.recipe = "seed = 1\ntotal = \"4 steps\"\n";
  EXPECT_NE(recipe::run_name(other), name);
  other = run;
  other.data.hash = "2f";
  EXPECT_NE(recipe::run_name(other), name);
}

}  // namespace
}  // namespace tessera::train
