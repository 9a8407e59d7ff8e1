#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "checkpoint/commit.h"
#include "checkpoint/directories.h"
#include "checkpoint/manager.h"
#include "checkpoint/snapshots.h"
#include "store/encoding/crc32c.h"
#include "store/faulty_files.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::checkpoint {
namespace {

using ::testing::AllOf;
using testing::expect_snapshot;
using ::testing::HasSubstr;
using testing::make_snapshot;
using testing::slurp;
using testing::spill;
using testing::TempDir;

std::string save(const TempDir& directory, int64_t step) {
  return write_checkpoint(store::local_files(), directory.path(), make_snapshot(step));
}

TEST(Names, StepsAndLeftovers) {
  EXPECT_EQ(step_directory(1000), "step_000001000");
  EXPECT_EQ(step_directory(12'345'678'901), "step_12345678901");
  EXPECT_EQ(parse_directory_name("step_000001000")->step, 1000);
  EXPECT_EQ(parse_directory_name("step_12345678901")->step, 12'345'678'901);
  EXPECT_FALSE(parse_directory_name("step_000001000")->writer);
  EXPECT_EQ(parse_directory_name("step_000001000.tmp-42")->writer, 42);
  EXPECT_EQ(parse_directory_name("step_000001000.tmp-42.swap")->writer, 42);
  EXPECT_EQ(parse_directory_name("step_000001000.tmp-42.3")->writer, 42);
  EXPECT_EQ(parse_directory_name("step_000001000.tmp-42.3.swap")->writer, 42);
  EXPECT_EQ(parse_directory_name("step_000001000.tmp-42.3.failed")->writer, 42);
  EXPECT_EQ(parse_directory_name("step_000001000.tmp-42.3.failed.tmp-43")->writer, 42);
  for (const char* other :
       {"step_1000", "step_00000100x", "step_", "step_-00001000", "step_000001000.tmp-", "step_000001000.bak",
        "astep_000001000", "step_000001000.tmp-x", "best", "step_99999999999999999999"}) {
    EXPECT_FALSE(parse_directory_name(other)) << other;
  }
}

TEST(Commit, RoundTripAndChecksum) {
  const Commit commit{7, {{"state.safetensors", 12, 0xdeadbeef}, {"state.json", 3, 1}}};
  const std::string text = commit_text(commit);
  const Commit back = parse_commit(text, "COMMIT");
  EXPECT_EQ(back.step, 7);
  ASSERT_EQ(back.files.size(), 2u);
  EXPECT_EQ(back.files[0].name, "state.safetensors");
  EXPECT_EQ(back.files[0].size, 12);
  EXPECT_EQ(back.files[0].crc32c, 0xdeadbeefu);
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW(parse_commit(damaged, "COMMIT"), Error) << "bit " << bit;
  }
  for (size_t length = 0; length < text.size(); ++length) EXPECT_THROW(parse_commit(text.substr(0, length), "COMMIT"), Error);
  EXPECT_THROW(parse_commit(text + " ", "COMMIT"), Error);
}

std::string sealed(const std::string& before) {
  return before + fmt::format("  \"crc32c\": \"{}\"\n}}\n", store::crc32c_text(store::crc32c(store::as_bytes(before))));
}

TEST(Commit, HostileListsAreRefused) {
  const auto files = [](const std::string& list) {
    return sealed("{\"format\": \"tessera checkpoint\", \"version\": 1, \"step\": 1, \"files\": [" + list + "],\n");
  };
  const std::string both =
      R"({"name":"state.safetensors","size":1,"crc32c":"00000000"},{"name":"state.json","size":1,"crc32c":"00000000"})";
  EXPECT_EQ(parse_commit(files(both), "C").files.size(), 2u);
  for (const std::string bad :
       {R"(,{"name":"../x","size":1,"crc32c":"00000000"})", R"(,{"name":"","size":1,"crc32c":"00000000"})",
        R"(,{"name":"a/b","size":1,"crc32c":"00000000"})", R"(,{"name":"x","size":1,"crc32c":"zz000000"})",
        R"(,{"name":"x","size":1,"crc32c":"0"})", R"(,{"name":"x"})", R"(,1)", R"(,{"name":"x","size":-1,"crc32c":"00000000"})",
        R"(,{"name":"x","size":1.5,"crc32c":"00000000"})", R"(,{"name":"x","size":9223372036854775808,"crc32c":"00000000"})",
        R"(,{"name":"state.json","size":1,"crc32c":"00000000"})"}) {
    EXPECT_THROW(parse_commit(files(both + bad), "C"), Error) << bad;
  }
  EXPECT_THROW(parse_commit(files(""), "C"), Error);
  try {
    parse_commit(sealed("{\"format\": \"tessera checkpoint\", \"version\": 5,\n"), "C");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has format version 5; this program reads versions up to 4"));
  }
}

// Of a checkpoint that was written beside another one of its step.
TEST(Commit, NamesMayBeginWithAPrefix) {
  const Commit plain{7, {{"state.safetensors", 12, 1}, {"state.json", 3, 1}}};
  EXPECT_EQ(other_prefix(plain), "r2-");
  const Commit second = with_prefix(plain, "r2-");
  EXPECT_EQ(second.files[0].name, "r2-state.safetensors");
  EXPECT_EQ(other_prefix(second), "r3-");
  EXPECT_EQ(with_prefix(second, "r3-").files[1].name, "r3-state.json");
  EXPECT_EQ(other_prefix(with_prefix(plain, "r999-")), "r2-");
  EXPECT_TRUE(same_content(plain, second));
  const Commit back = parse_commit(commit_text(second), "COMMIT");
  EXPECT_EQ(back.version, kPrefixVersion);
  EXPECT_EQ(state_json_name(back), "r2-state.json");
  EXPECT_EQ(state_files(back), std::vector<size_t>{0});
  Commit other = second;
  other.files[0].crc32c = 2;
  EXPECT_FALSE(same_content(plain, other));

  Commit mixed = second;
  mixed.files[1].name = "r3-state.json";
  EXPECT_THROW(parse_commit(commit_text(mixed), "COMMIT"), Error);
  Commit bare = plain;
  bare.version = kPrefixVersion;
  EXPECT_THROW(parse_commit(commit_text(bare), "COMMIT"), Error) << "version 3 has one";
  Commit older = second;
  older.version = kPiecesVersion;
  EXPECT_THROW(parse_commit(commit_text(older), "COMMIT"), Error) << "version 2 has no prefixes";
  for (const char* name :
       {"r-state.json", "r1-state.json", "r02-state.json", "r1000-state.json", "rx-state.json", "state.json"})
    EXPECT_EQ(name_prefix(name), "") << name;
}

// Another state.json in the checkpoint. Its checksums fit: whoever made it made them too.
void replace_state_json(const std::string& path, const std::string& text) {
  spill(path + "/state.json", text);
  Commit commit = parse_commit(slurp(path + "/COMMIT"), "COMMIT");
  for (CommittedFile& file : commit.files) {
    if (file.name == "state.json") {
      file.size = static_cast<int64_t>(text.size());
      file.crc32c = store::crc32c(store::as_bytes(text));
    }
  }
  spill(path + "/COMMIT", commit_text(commit));
}

TEST(Checkpoint, NumbersBeyondEveryTypeAreAnotherCheckpoints) {
  const TempDir directory;
  const std::string path = save(directory, 1);
  for (const char* number : {"1e300", "-1e300", "18446744073709551615", "1.5", "\"1\"", "null"}) {
    replace_state_json(path, fmt::format(R"({{"format_version": 1, "step": {}, "state": {{}}}})", number));
    EXPECT_THROW(load(path), Error) << number;
    replace_state_json(path, fmt::format(R"({{"format_version": {}, "step": 1, "state": {{}}}})", number));
    EXPECT_THROW(load(path), Error) << number;
  }
}

TEST(Checkpoint, JsonThatNestsDeepIsRefused) {
  const std::string deep(100'000, '[');
  EXPECT_THROW(parse_commit(sealed("{\"format\": " + deep + ",\n"), "C"), Error);
  const TempDir directory;
  const std::string path = save(directory, 1);
  replace_state_json(path,
                     fmt::format(R"({{"format_version": 1, "step": 1, "state": {}{}}})", deep, std::string(deep.size(), ']')));
  try {
    load(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("state.json` is damaged: cannot be read as JSON: it nests more than 64 levels deep"));
  }
}

TEST(Checkpoint, RoundTrip) {
  const TempDir directory;
  const std::string path = save(directory, 1000);
  EXPECT_EQ(path, directory / "step_000001000");
  const LoadedCheckpoint loaded = load(path);
  EXPECT_EQ(loaded.path, path);
  expect_snapshot(loaded, make_snapshot(1000));
  EXPECT_EQ(loaded.files.at(0).metadata(), (Metadata{{"format", "tessera"}, {"step", "1000"}}));
  std::vector<std::string> names;
  for (const auto& entry : store::local_files().list(path)) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"COMMIT", "state.json", "state.safetensors"}));
}

// The worked example of docs/formats/checkpoint.md: a change of these bytes is a change of the format.
TEST(Checkpoint, WritesTheBytesOfTheDocument) {
  const TempDir directory;
  const std::string data("\0\0\x80\x3f\0\0\0\xc0", 8);  // 1.0 and -2.0
  Snapshot snapshot;
  snapshot.step = 7;
  const TensorType type{DType::kF32, {2}};
  snapshot.add({{"params/w", type, store::copy_bytes(store::as_bytes(data))}});
  snapshot.state_json = R"({"examples_seen":896,"seed":0})";
  const std::string path = write_checkpoint(store::local_files(), directory.path(), snapshot);
  for (const char* name : {"COMMIT", "state.json", "state.safetensors"}) {
    EXPECT_EQ(slurp(path + "/" + name),
              slurp(testing::source_path("tests/checkpoint/golden/step_000000007/" + std::string(name))));
  }
}

TEST(Checkpoint, TheSameSnapshotGivesTheSameBytes) {
  const TempDir a, b;
  save(a, 5);
  save(b, 5);
  for (const char* name : {"COMMIT", "state.json", "state.safetensors"}) {
    EXPECT_EQ(slurp(a / ("step_000000005/" + std::string(name))), slurp(b / ("step_000000005/" + std::string(name))));
  }
}

TEST(Checkpoint, StateJsonKeepsOrderAndEveryDigit) {
  const TempDir directory;
  Snapshot snapshot = make_snapshot(1);
  snapshot.state_json =
      R"({"zebra":18446744073709551615,"apple":[0.1,-1,1e300],"nested":{"b":null,"a":true},"text":"\u00e4\n"})";
  const auto path = write_checkpoint(store::local_files(), directory.path(), snapshot);
  EXPECT_EQ(
      load(path).state_json,
      "{\"zebra\":18446744073709551615,\"apple\":[0.1,-1,1e+300],\"nested\":{\"b\":null,\"a\":true},\"text\":\"\u00e4\\n\"}");
}

TEST(Checkpoint, EveryFlippedBitAndEveryTruncationIsFound) {
  const TempDir directory;
  const std::string path = save(directory, 3);
  for (const char* name : {"COMMIT", "state.json", "state.safetensors"}) {
    const std::string file = path + "/" + name;
    const std::string whole = slurp(file);
    for (size_t byte = 0; byte < whole.size(); byte += 5) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (byte % 8)));
      spill(file, damaged);
      EXPECT_THROW(load(path), Error) << name << " byte " << byte;
    }
    for (size_t length = 0; length < whole.size(); length += 13) {
      spill(file, whole.substr(0, length));
      EXPECT_THROW(load(path), Error) << name << " cut at " << length;
    }
    spill(file, whole + "x");
    EXPECT_THROW(load(path), Error) << name << " with a byte too many";
    store::local_files().remove_file(file);
    EXPECT_THROW(load(path), Error) << name << " missing";
    spill(file, whole);
    EXPECT_EQ(load(path).step, 3);
  }
}

TEST(Checkpoint, FilesOfAnotherStepAreRefused) {
  const TempDir directory;
  const std::string one = save(directory, 1), two = save(directory, 2);
  spill(two + "/state.safetensors", slurp(one + "/state.safetensors"));
  EXPECT_THROW(load(two), Error);
  store::local_files().rename(one, directory / "step_000000009");
  EXPECT_THROW(load(directory / "step_000000009"), Error);
  store::local_files().rename(directory / "step_000000009", directory / "my_copy");
  EXPECT_EQ(load(directory / "my_copy/").step, 1);
}

TEST(Checkpoint, CommitBindsTheRun) {
  const TempDir directory;
  Snapshot snapshot = make_snapshot(7);
  snapshot.run = "0123456789abcdef";
  const std::string path = write_checkpoint(store::local_files(), directory.path(), snapshot);
  EXPECT_EQ(load(path).run, snapshot.run);
  std::string text = slurp(path + "/COMMIT");
  text.replace(text.find("0123"), 4, "0124");
  spill(path + "/COMMIT", text);
  EXPECT_THROW(load(path), Error);
  EXPECT_THROW(commit_text({7, {}, kPlainVersion, "../x"}), InternalError);
}

TEST(FindLatest, NothingYet) {
  const TempDir directory;
  EXPECT_FALSE(find_latest(directory / "checkpoints").checkpoint);
  EXPECT_FALSE(find_latest(directory.path()).checkpoint);
  store::local_files().make_directories(directory / "best");
  spill(directory / "step_000000001", "a file, not a directory");
  EXPECT_FALSE(find_latest(directory.path()).checkpoint);
}

TEST(FindLatest, TakesTheNewestWholeOneAndReportsTheOthers) {
  const TempDir directory;
  save(directory, 9);
  save(directory, 100);
  for (const int64_t step : {200, 300, 400}) save(directory, step);
  spill(directory / "step_000000200/state.safetensors", slurp(directory / "step_000000100/state.safetensors"));
  store::local_files().remove_file(directory / "step_000000300/COMMIT");
  spill(directory / "step_000000400/COMMIT", "");
  store::local_files().make_directories(directory / "step_000000500.tmp-1");

  const LatestCheckpoint latest = find_latest(directory.path());
  ASSERT_TRUE(latest.checkpoint);
  expect_snapshot(*latest.checkpoint, make_snapshot(100));
  ASSERT_EQ(latest.rejected.size(), 4u);
  EXPECT_EQ(latest.rejected[0].path, directory / "step_000000500.tmp-1");
  EXPECT_THAT(latest.rejected[0].reason, HasSubstr("the save did not end"));
  EXPECT_THAT(latest.rejected[1].reason, HasSubstr("COMMIT` is damaged: its checksum is missing"));
  EXPECT_THAT(latest.rejected[2].reason, HasSubstr("it has no COMMIT file"));
  EXPECT_THAT(latest.rejected[3].reason, HasSubstr("state.safetensors` is damaged"));
}

TEST(FindLatest, AllDamagedIsAnErrorThatListsEach) {
  const TempDir directory;
  for (const int64_t step : {1, 2}) {
    store::local_files().remove_file(save(directory, step) + "/state.json");
  }
  try {
    find_latest(directory.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("step_000000001/state.json` is missing"),
                                    HasSubstr("step_000000002/state.json` is"), HasSubstr("move the directory away")));
  }
}

TEST(FindLatest, OnlyUnfinishedSavesMeansNoneYet) {
  const TempDir directory;
  store::local_files().make_directories(directory / "step_000000500.tmp-1");
  const LatestCheckpoint latest = find_latest(directory.path());
  EXPECT_FALSE(latest.checkpoint);
  EXPECT_EQ(latest.rejected.size(), 1u);
}

// A run that trains, seen between the list of its checkpoints and the first look at one: it saves another and removes those.
class SavesWhenListed : public testing::FaultyFiles {
 public:
  SavesWhenListed(const TempDir& directory, int times)
      : FaultyFiles(store::local_files()), directory_(directory), left_(times) {}
  std::vector<store::FileInfo> list(const std::string& path) override {
    auto entries = FaultyFiles::list(path);
    if (left_-- <= 0) return entries;
    save(directory_, ++step_);
    for (const store::FileInfo& entry : entries) remove_checkpoint(store::local_files(), path, entry.name);
    return entries;
  }

 private:
  const TempDir& directory_;
  int left_;
  int64_t step_ = 10;
};

TEST(FindLatest, FollowsARunThatSaves) {
  const TempDir directory;
  save(directory, 10);
  SavesWhenListed files(directory, 3);
  const LatestCheckpoint latest = find_latest(directory.path(), files);
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->step, 13);

  const TempDir first;
  store::local_files().make_directories(first / "step_000000011.tmp-1");
  SavesWhenListed begun(first, 1);
  EXPECT_EQ(find_latest(first.path(), begun).checkpoint->step, 11);
}

TEST(Load, ADirectoryThatIsNotThereIsExplained) {
  try {
    load("/nonexistent/step_000000001");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no checkpoint `/nonexistent/step_000000001`"));
  }
}

// Cuts one file short as soon as it is mapped. Reading the rest is then the same SIGBUS as a bad sector.
class CutWhenMapped : public testing::FaultyFiles {
 public:
  explicit CutWhenMapped(std::string path) : FaultyFiles(store::local_files()), path_(std::move(path)) {}
  store::Bytes map(const std::string& path) override {
    store::Bytes bytes = FaultyFiles::map(path);
    if (path == path_) truncate(path, 4096);
    return bytes;
  }

 private:
  std::string path_;
};

Snapshot large_snapshot(int64_t step) {
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.add({testing::make_tensor("params/large", {DType::kF32, {100'000}}, static_cast<uint64_t>(step))});
  return snapshot;
}

TEST(Load, WhatCannotBeReadIsPassedOverForTheOneBefore) {
  TempDir directory;
  const std::string older = write_checkpoint(store::local_files(), directory.path(), large_snapshot(1));
  const std::string newer = write_checkpoint(store::local_files(), directory.path(), large_snapshot(2));
  CutWhenMapped files(newer + "/state.safetensors");
  const LatestCheckpoint latest = find_latest(directory.path(), files);
  ASSERT_TRUE(latest.checkpoint.has_value());
  EXPECT_EQ(latest.checkpoint->path, older);
  ASSERT_EQ(latest.rejected.size(), 1u);
  EXPECT_THAT(latest.rejected[0].reason, HasSubstr("cannot read `" + newer + "/state.safetensors`: Input/output error"));
}

// Its checksums were right, and then a part of it had to be fetched again.
TEST(Load, WhatCannotBeReadLaterIsAnError) {
  TempDir directory;
  const std::string path = write_checkpoint(store::local_files(), directory.path(), large_snapshot(1));
  const LoadedCheckpoint loaded = load(path);
  EXPECT_NO_THROW(loaded.check());
  store::local_files().truncate(path + "/state.safetensors", 4096);
  std::vector<std::byte> out(400'000);
  loaded.arrays.at("params/large").read({{100'000}, {0}}, out.data());
  EXPECT_THROW(loaded.check(), store::IoError);
}

}  // namespace
}  // namespace tessera::checkpoint
