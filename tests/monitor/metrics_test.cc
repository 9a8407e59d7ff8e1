#include "monitor/metrics.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "store/faulty_files.h"
#include "store/memory_files.h"
#include "store/temp_dir.h"

namespace tessera::monitor {
namespace {

using testing::FaultyFiles;
using testing::MemoryFiles;
using testing::slurp;
using testing::spill;
using testing::TempDir;

TEST(MetricsLine, StepFirstThenTheOrderGiven) {
  EXPECT_EQ(metrics_line(20, {{"training_loss", 0.25}, {"epoch", int64_t{3}}, {"a", "b\"\n"}, {"done", true}}),
            R"({"step":20,"training_loss":0.25,"epoch":3,"a":"b\"\n","done":true})");
  EXPECT_EQ(metrics_line(0, {}), R"({"step":0})");
  EXPECT_THROW(metrics_line(1, {{"a", 1.0}, {"a", 2.0}}), InternalError);
  EXPECT_THROW(metrics_line(1, {{"step", 1.0}}), InternalError);
}

TEST(MetricsLine, ShortestDigitsThatReadBackTheSame) {
  EXPECT_EQ(metrics_line(1, {{"x", 0.1f}}), R"({"step":1,"x":0.1})");
  EXPECT_EQ(metrics_line(1, {{"x", 0.1}}), R"({"step":1,"x":0.1})");
  EXPECT_EQ(metrics_line(1, {{"x", static_cast<double>(0.1f)}}), R"({"step":1,"x":0.10000000149011612})");
  EXPECT_EQ(metrics_line(1, {{"x", 1e-10}, {"y", 1e300}, {"z", -0.0}}), R"({"step":1,"x":1e-10,"y":1e+300,"z":-0})");
}

TEST(MetricsLine, NotFiniteIsAString) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(metrics_line(1, {{"a", std::nan("")}, {"b", inf}, {"c", -inf}, {"d", std::nanf("")}}),
            R"({"step":1,"a":"nan","b":"inf","c":"-inf","d":"nan"})");
}

TEST(MetricWriter, ReadsBackWhatItWrote) {
  const TempDir directory;
  MetricWriter writer(directory.path());
  Rng rng(1);
  std::vector<double> values;
  for (int64_t step = 0; step < 50; ++step) {
    values.push_back(rng.normal() * std::pow(10.0, rng.uniform(-20, 20)));
    writer.write(step, {{"x", values.back()}, {"label", "text"}, {"bad", std::nan("")}});
  }
  const auto rows = read_metrics(writer.metrics_path());
  ASSERT_EQ(rows.size(), 50u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].step, static_cast<int64_t>(i));
    EXPECT_EQ(rows[i].values.at("x"), values[i]);
    EXPECT_TRUE(std::isnan(rows[i].values.at("bad")));
    EXPECT_FALSE(rows[i].values.contains("label"));
  }
  EXPECT_TRUE(read_metrics(directory / "nowhere.jsonl").empty());
}

TEST(MetricWriter, TheLastLineIsFoundFromTheEnd) {
  const TempDir directory;
  const std::string path = directory / "metrics.jsonl";
  EXPECT_FALSE(last_metrics(path));
  spill(path, "");
  EXPECT_FALSE(last_metrics(path));
  for (const size_t before : {0u, 100u, 200'000u}) {
    spill(path, std::string(before, 'x') + "\n{\"step\":1,\"uptime\":2}\n{\"step\":2,\"uptime\":3.5}\n{\"step\":3,\"upt");
    const auto row = last_metrics(path);
    ASSERT_TRUE(row) << before;
    EXPECT_EQ(row->step, 2);
    EXPECT_EQ(row->values.at("uptime"), 3.5);
  }
}

TEST(MetricWriter, LinesThatNestDeepAreNone) {
  const TempDir directory;
  const std::string path = directory / "metrics.jsonl";
  testing::spill(path, "{\"step\":1,\"x\":2}\n{\"step\":2,\"x\":" + std::string(100'000, '[') + "\n{\"step\":3,\"x\":3}\n");
  const auto rows = read_metrics(path);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].step, 3);
}

TEST(MetricWriter, SummaryHasTimmsColumns) {
  const TempDir directory;
  MetricWriter writer(directory.path());
  writer.write_summary({1, 2.5, 1.25, 60.5, 90.0, 57});
  writer.write_summary({1.5, {}, std::nan(""), 70.0, {}, 85});
  EXPECT_EQ(slurp(directory / "summary.csv"),
            "epoch,train_loss,eval_loss,eval_top1,eval_top5,step\n1,2.5,1.25,60.5,90,57\n1.5,,nan,70,,85\n");
}

TEST(MetricWriter, SummaryHasAColumnForEachFurtherScore) {
  const TempDir directory;
  const std::string path = directory / "summary.csv";
  {
    MetricWriter writer(directory.path());
    writer.write_summary({1, 2.5, 1.25, 60.5, 90.0, 57, {{"val_ema/loss", 1.5}, {"a,\"b\"/prec@1", 0.25}}});
    writer.write_summary({2, {}, {}, {}, {}, 58, {{"val_ema/loss", {}}, {"a,\"b\"/prec@1", 0.5}}});
  }
  const std::string first =
      "epoch,train_loss,eval_loss,eval_top1,eval_top5,val_ema/loss,\"a,\"\"b\"\"/"
      "prec@1\",step\n1,2.5,1.25,60.5,90,1.5,0.25,57\n";
  EXPECT_EQ(slurp(path), first + "2,,,,,,0.5,58\n");
  MetricWriter(directory.path()).truncate_after(57);
  EXPECT_EQ(slurp(path), first);
  MetricWriter(directory.path()).truncate_after(-1);
  EXPECT_EQ(slurp(path), "");
}

TEST(MetricWriter, TruncationKeepsTheRestByteForByte) {
  const TempDir directory;
  const std::string kept = "{\"step\": 10,  \"x\":1.0}\n{\"x\":2,\"step\":20}\n{\"step\":20,\"val/loss\":1}\n";
  struct Case {
    std::string tail;
    int64_t step;
  };
  for (const Case& c :
       {Case{"{\"step\":21}\n", 20}, Case{"{\"step\":30,\"x\"", 20}, Case{"", 20}, Case{"{\"step\":20,\"x\":1}", 20},
        Case{"garbage\n{\"step\":40}\n", 25}, Case{std::string(100, '\0'), 99}, Case{"{\"step\":\"20\"}\n[20]\n20\n\n", 20}}) {
    spill(directory / "metrics.jsonl", kept + c.tail);
    MetricWriter writer(directory.path());
    writer.truncate_after(c.step);
    EXPECT_EQ(slurp(directory / "metrics.jsonl"), kept) << c.tail;
    writer.write(50, {{"x", 1.5}});
    EXPECT_EQ(slurp(directory / "metrics.jsonl"), kept + "{\"step\":50,\"x\":1.5}\n");
  }
}

TEST(MetricWriter, TruncationOfTheSummary) {
  const TempDir directory;
  const std::string header = summary_header() + "\n", one = "1,2.5,1.25,60.5,90,57\n", two = "2,,,,,114\n";
  spill(directory / "summary.csv", header + one + two + "3,1,1,1,1,17");
  MetricWriter writer(directory.path());
  writer.truncate_after(100);
  EXPECT_EQ(slurp(directory / "summary.csv"), header + one);
  writer.write_summary({2, {}, {}, {}, {}, 114});
  EXPECT_EQ(slurp(directory / "summary.csv"), header + one + two);
  writer.truncate_after(-1);
  EXPECT_EQ(slurp(directory / "summary.csv"), "");
  writer.write_summary({2, {}, {}, {}, {}, 114});
  EXPECT_EQ(slurp(directory / "summary.csv"), header + two);
}

TEST(MetricWriter, ATornLastLineIsRemovedWithoutTruncationToo) {
  const TempDir directory;
  spill(directory / "metrics.jsonl", "{\"step\":1}\n{\"st");
  MetricWriter(directory.path()).write(2, {});
  EXPECT_EQ(slurp(directory / "metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

// Killed after any number of bytes, resumed and run to the end, the file is that of a run never killed.
TEST(MetricWriter, AKilledAndResumedFileIsTheSame) {
  const auto run = [](const TempDir& directory, int64_t from) {
    MetricWriter writer(directory.path());
    writer.truncate_after(from);
    for (int64_t step = from + 1; step <= 8; ++step) writer.write(step, {{"training_loss", 1.0 / static_cast<double>(step)}});
    return slurp(writer.metrics_path());
  };
  const TempDir whole;
  const std::string expected = run(whole, -1 + 1);
  for (size_t bytes = 0; bytes <= expected.size(); bytes += 3) {
    const std::string cut = expected.substr(0, bytes);
    const int64_t lines = std::count(cut.begin(), cut.end(), '\n');
    for (const int64_t from : {int64_t{0}, lines / 2, lines}) {
      const TempDir directory;
      spill(directory / "metrics.jsonl", cut);
      ASSERT_EQ(run(directory, from), expected) << bytes << " bytes, from step " << from;
    }
  }
}

// While the disk refuses lines they wait in memory; none is lost, doubled or torn.
TEST(MetricWriter, AFullDiskLosesNothing) {
  int64_t k = 0;
  for (bool fired = true; fired; ++k) {
    ASSERT_LT(k, 100);
    MemoryFiles files;
    files.make_directories("w");
    FaultyFiles faulty(files);
    MetricWriter writer("w", faulty);
    writer.write(1, {{"x", 1.0}});
    faulty.fail_at(k, ENOSPC);
    writer.write(2, {{"x", 2.0}});
    writer.write(3, {{"x", 3.0}});
    fired = faulty.fired();
    faulty.disarm();
    writer.write(4, {});
    EXPECT_FALSE(writer.failing());
    EXPECT_EQ(store::read_text(files, "w/metrics.jsonl"),
              "{\"step\":1,\"x\":1}\n{\"step\":2,\"x\":2}\n{\"step\":3,\"x\":3}\n{\"step\":4}\n")
        << "operation " << k;
  }
  EXPECT_GT(k, 4);
}

TEST(MetricWriter, FailingIsToldUntilTheDiskTakesTheLines) {
  MemoryFiles files;
  files.make_directories("w");
  FaultyFiles faulty(files);
  MetricWriter writer("w", faulty);
  faulty.fail_at(0, ENOSPC, true);
  writer.write(1, {});
  EXPECT_TRUE(writer.failing());
  EXPECT_THROW(writer.flush(), store::IoError);
  faulty.disarm();
  writer.flush();
  EXPECT_FALSE(writer.failing());
  EXPECT_EQ(store::read_text(files, "w/metrics.jsonl"), "{\"step\":1}\n");
}

// Whatever others do to the file: one warning says it, whole lines follow, and nothing is made where the directory is another one.
TEST(LineLog, NoticesWhatOthersDoToItsFile) {
  auto& files = store::local_files();
  const struct {
    std::function<void(const std::string& path)> action;
    const char* after;  // of the lines "one" to "three"; "three" comes after it
  } cases[] = {{[&](const std::string& path) { files.remove_file(path); }, "three\n"},
               {[&](const std::string& path) { files.truncate(path, 6); }, "one\nthree\n"},
               {[&](const std::string& path) {
                  const auto file = files.append(path);
                  file->write(store::as_bytes("theirs\nhalf"));
                  file->close();
                },
                "one\ntwo\ntheirs\nthree\n"},
               {[&](const std::string& path) { store::write_atomic(files, path, std::string_view("theirs\nhalf")); },
                "theirs\nthree\n"}};
  for (const auto& c : cases) {
    const TempDir directory;
    const std::string path = directory / "log";
    LineLog log(path);
    for (const char* line : {"one", "two"}) log.add(line);
    log.sync();
    EXPECT_FALSE(log.disturbed());
    c.action(path);
    ::testing::internal::CaptureStderr();
    for (int time = 0; time < 2; ++time) log.sync();
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("warning: `" + path + "` was "), 0u) << said;
    EXPECT_EQ(said.find("warning", 1), std::string::npos) << said;
    EXPECT_TRUE(log.disturbed());
    log.add("three");
    EXPECT_EQ(slurp(path), c.after);
    EXPECT_FALSE(log.failing());
  }
}

TEST(LineLog, WaitsWhereItsDirectoryIsAnotherOne) {
  const TempDir directory;
  auto& files = store::local_files();
  files.make_directories(directory / "run");
  LineLog log(directory / "run/log");
  log.add("one");
  files.rename(directory / "run", directory / "moved");
  for (const bool replaced : {false, true}) {
    if (replaced) files.make_directories(directory / "run");
    log.add("two");
    EXPECT_TRUE(log.failing());
    EXPECT_THROW(log.sync(), store::IoError);
  }
  EXPECT_TRUE(files.list(directory / "run").empty());
  files.remove_directory(directory / "run");
  files.rename(directory / "moved", directory / "run");
  log.sync();
  EXPECT_FALSE(log.failing());
  EXPECT_EQ(slurp(directory / "run/log"), "one\ntwo\ntwo\n");
}

TEST(LineLog, DoesNotWriteThroughALink) {
  const TempDir directory;
  auto& files = store::local_files();
  const std::string path = directory / "log", precious = directory / "precious";
  store::write_atomic(files, precious, std::string_view("no line end"));
  for (const bool meanwhile : {false, true}) {
    LineLog log(path);
    if (meanwhile) log.add("one");
    std::filesystem::remove(path);
    std::filesystem::create_symlink(precious, path);
    log.add("two");
    EXPECT_TRUE(log.failing());
    EXPECT_EQ(slurp(precious), "no line end");
    std::filesystem::remove(path);
    log.add("three");
    EXPECT_FALSE(log.failing());
    EXPECT_EQ(slurp(path), "two\nthree\n");
    std::filesystem::remove(path);
  }
}

TEST(MetricWriter, WhatIsFlushedSurvivesAPowerCut) {
  MemoryFiles files;
  files.make_directories("w");
  MetricWriter writer("w", files);
  writer.write(1, {});
  writer.write_summary({1, {}, {}, {}, {}, 1});
  writer.flush();
  writer.write(2, {});
  files.restart(MemoryFiles::Loss::kAllLost);
  EXPECT_EQ(store::read_text(files, "w/metrics.jsonl"), "{\"step\":1}\n");
  EXPECT_EQ(store::read_text(files, "w/summary.csv"), summary_header() + "\n1,,,,,1\n");
}

}  // namespace
}  // namespace tessera::monitor
