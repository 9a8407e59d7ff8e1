// The file of a W&B run. tests/cli/monitoring/wandb_test.cc uploads those of whole runs with W&B's own program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cerrno>

#include "monitor/sinks/sinks.h"
#include "monitor/wandb/record_log.h"
#include "monitor/wandb/records.h"
#include "monitor/wandb/values.h"
#include "store/faulty_files.h"
#include "store/temp_dir.h"
#include "support/hex.h"

namespace tessera::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::hex;
using testing::slurp;
using testing::spill;
using testing::TempDir;

std::string log_of(const std::vector<std::string>& records) {
  std::string out = record_log_header();
  for (const std::string& record : records) add_log_record(out, static_cast<int64_t>(out.size()), record);
  return out;
}

std::vector<std::string> read_all(std::string_view file) {
  std::vector<std::string> records;
  RecordLogReader reader(file);
  while (auto record = reader.next()) records.push_back(std::move(*record));
  return records;
}

// Bytes that wandb.sdk.internal.datastore of wandb 0.26.1 wrote for these records.
TEST(WandbRecords, HaveTheBytesOfWandbsOwnWriter) {
  const std::string summary =
      wandb_record(2, wandb_summary({{"loss", wandb_json(std::numeric_limits<double>::quiet_NaN())}}, 7.5));
  EXPECT_EQ(
      hex(log_of(
          {wandb_record(1, wandb_history(300, {{"val/prec@1", "0.25"}})), summary, wandb_record(3, wandb_exit(75, 7.5))})),
      "3a572642e1be007992660a1e00010801121a0a13120a76616c2f707265634031820104302e3235120308ac02a8807bfb29000108021a250a0c12046c"
      "6f73738201034e614e0a1512065f77616e6462120772756e74696d6582010137ff7949120900010803920104084b1007");
}

// The same of records of all lengths beside the ends of blocks; the checksum is of the whole file.
TEST(RecordLog, CutsRecordsAtTheEndsOfBlocks) {
  std::vector<std::string> records;
  for (const size_t size : {size_t{32744}, size_t{5}, size_t{100000}, size_t{32754}, size_t{0}, size_t{65522}}) {
    std::string& record = records.emplace_back();
    for (size_t i = 0; i < size; ++i) record += static_cast<char>((7 * i + size) % 251);
  }
  const std::string file = log_of(records);
  EXPECT_EQ(file.size(), 231123u);
  EXPECT_EQ(crc32(0, reinterpret_cast<const Bytef*>(file.data()), static_cast<uInt>(file.size())), 0x2675efaeu);
  EXPECT_EQ(read_all(file), records);
}

TEST(RecordLog, EndsWhereItIsCutOrDamaged) {
  const std::vector<std::string> records = {std::string(20, 'a'), std::string(70000, 'b'), std::string(20, 'c')};
  const std::string file = log_of(records);
  EXPECT_TRUE(read_all("").empty());
  EXPECT_TRUE(read_all("another file").empty());
  for (const size_t size : {size_t{0}, size_t{6}, size_t{7}, size_t{33}}) EXPECT_TRUE(read_all(file.substr(0, size)).empty());
  EXPECT_THAT(read_all(file.substr(0, 34)), ElementsAre(records[0]));
  EXPECT_EQ(read_all(file.substr(0, file.size() - 1)).size(), 2u);
  for (const size_t at : {size_t{10}, size_t{40}, size_t{40000}, file.size() - 1}) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_LT(read_all(damaged).size(), 3u) << at;
  }
}

TEST(WandbValues, AreJson) {
  EXPECT_EQ(wandb_json(MetricValue{0.1F}), "0.1");
  EXPECT_EQ(wandb_json(MetricValue{int64_t{7}}), "7");
  EXPECT_EQ(wandb_json(MetricValue{true}), "true");
  EXPECT_EQ(wandb_json(MetricValue{std::string("a\"b")}), "\"a\\\"b\"");
  EXPECT_EQ(wandb_json(-std::numeric_limits<double>::infinity()), "-Infinity");
  EXPECT_EQ(wandb_json(Histogram{"h", -1, 1, 0, 0, {3, 4}}),
            R"({"_type":"histogram","values":[3.0,4.0],"bins":[-1.0,0.0,1.0]})");
}

// A run's directory: starts that go on from a step and write some, as the sink and metrics.jsonl have them.
class WandbFile : public ::testing::Test {
 protected:
  void start(int64_t kept, int64_t last, bool off = false) { start(kept, last, off, files_); }
  void start(int64_t kept, int64_t last, bool off, store::FileSystem& files) {
    MetricWriter writer(dir_.path());
    writer.truncate_after(kept);
    Sinks sinks;
    if (!off) sinks.begin({"wandb"}, {dir_.path(), kept, 1000, 50}, files);
    for (int64_t step = std::max<int64_t>(kept, 0) + 1; step <= last; ++step) {
      if (step % 3 == 0) sinks.put(step, Histograms{{{"weights", 0, 1, 0, 0, {static_cast<double>(step)}}}});
      const std::vector<Metric> metrics = {{"loss", 1 / static_cast<double>(step)}, {"uptime", static_cast<double>(step)}};
      writer.write(step, metrics);
      sinks.put(step, Scalars{metrics});
      if (step % 4 == 0) sinks.put(step, Text{"warnings", fmt::format("at {}", step)});
      if (step % 4 == 0) sinks.put(step, Histograms{{{"late", 0, 1, 0, 0, {1}}}});
    }
    sinks.finish();
  }
  std::string path() {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "wandb")) {
      if (entry.path().extension() == ".wandb") return entry.path().string();
    }
    return "";
  }
  std::vector<WandbRow> rows() {
    std::vector<WandbRow> rows;
    for (const std::string& record : read_all(slurp(path()))) {
      const WandbKept kept = read_wandb_record(record);
      if (const auto* row = std::get_if<WandbRow>(&kept)) rows.push_back(*row);
    }
    return rows;
  }
  static bool has(const WandbRow& row, std::string_view key) {
    return std::ranges::any_of(row.items, [&](const auto& item) { return item.first == key; });
  }
  // Steps 1 … last, each once, with what belongs to it. Histograms only up to `whole`: metrics.jsonl has none.
  void expect_rows(int64_t last, int64_t whole) {
    const std::vector<WandbRow> found = rows();
    ASSERT_EQ(found.size(), static_cast<size_t>(last));
    for (int64_t step = 1; step <= last; ++step) {
      const WandbRow& row = found[static_cast<size_t>(step - 1)];
      EXPECT_EQ(row.step, step);
      EXPECT_TRUE(has(row, "loss") && has(row, "_timestamp") && has(row, "_runtime") && has(row, "_step")) << step;
      if (step > whole) continue;
      EXPECT_EQ(has(row, "weights"), step % 3 == 0) << step;
      EXPECT_EQ(has(row, "late"), step % 4 == 0) << step;
    }
  }

  TempDir dir_;
  testing::FaultyFiles files_{store::local_files()};
};

TEST_F(WandbFile, HasOneRowAStepHoweverOftenTheRunIsStarted) {
  start(-1, 12);
  const std::string first = path();
  expect_rows(12, 12);
  start(6, 9);
  expect_rows(9, 9);
  start(9, 13);
  expect_rows(13, 13);
  EXPECT_EQ(path(), first) << "the run has its directory and its id";
  start(-1, 2);
  expect_rows(2, 2);
  EXPECT_EQ(path(), first);
}

TEST_F(WandbFile, ADirectoryThatIsALinkIsNotWrittenTo) {
  start(-1, 12);
  const std::filesystem::path log = path(), own = log.parent_path(), name = log.filename();
  const std::filesystem::path other = dir_ / "other";
  std::filesystem::rename(own, other);
  std::filesystem::create_directory_symlink(other, own);
  const std::string file = (other / name).string(), before = slurp(file);
  start(6, 9);
  EXPECT_EQ(slurp(file), before);
}

TEST_F(WandbFile, KeepsConsoleLinesOfWhatIsKept) {
  start(-1, 9);
  start(5, 6);
  const std::string file = slurp(path());
  EXPECT_THAT(file, HasSubstr("warning: at 4"));
  EXPECT_THAT(file, ::testing::Not(HasSubstr("warning: at 8")));
}

TEST_F(WandbFile, WhatItLacksIsTakenFromMetrics) {
  start(-1, 8, /*off=*/true);
  start(8, 10);
  expect_rows(10, 0);
  const std::string whole = slurp(path());
  for (size_t size = 0; size < whole.size(); size += 61) {
    spill(path(), whole.substr(0, size));
    start(10, 12);
    expect_rows(12, 0);
  }
}

TEST_F(WandbFile, WhatTheDiskCannotReadIsSaid) {
  start(-1, 1500, /*off=*/true);
  start(1499, 1500);
  ASSERT_GT(slurp(path()).size(), size_t{130'000}) << "small files are read, not mapped";
  testing::CutWhenMapped cut(store::local_files());
  ::testing::internal::CaptureStderr();
  start(1500, 1502, /*off=*/false, cut);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(".wandb` can't be read to its end"));
  expect_rows(1502, 0);
}

// Whatever operation fails, once: the next start has what is missing.
TEST_F(WandbFile, NoFaultBreaksIt) {
  for (int64_t k = 0;; ++k) {
    std::filesystem::remove_all(dir_ / "wandb");
    start(-1, 4);
    files_.fail_at(k, ENOSPC);
    ::testing::internal::CaptureStderr();
    start(3, 8);
    const std::string said = ::testing::internal::GetCapturedStderr();
    const bool fired = files_.fired();
    files_.disarm();
    EXPECT_EQ(said.find("No space left on device") != std::string::npos, fired) << k << said;
    start(8, 9);
    expect_rows(9, fired ? 3 : 9);
    if (!fired) break;
    ASSERT_LT(k, 200);
  }
}

}  // namespace
}  // namespace tessera::monitor
