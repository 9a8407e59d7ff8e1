// Exports are whole, old or new, wherever the process ends.

#include "inference/export_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "store/checksums.h"
#include "store/faulty_files.h"
#include "store/temp_dir.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using testing::slurp;
using testing::spill;
using testing::TempDir;

const std::vector<std::string> kFiles = {"model.safetensors", "config.json"};

void write_version(store::FileSystem& files, const std::string& directory, inference::Existing existing,
                   const std::string& version, const std::string& record = {}) {
  const auto write = [&](const std::string& folder) {
    for (const std::string& name : kFiles) {
      store::write_atomic(files, store::join_path(folder, name), fmt::format("{} {}", name, version));
    }
  };
  inference::write_export_directory(files, directory, existing, kFiles, write, record);
}

std::string record_of(const std::string& run, const std::string& format, int64_t step = 20,
                      state::Weights weights = state::Weights::kRaw) {
  return inference::export_record(run, format, weights, step);
}

// The version whose files these all are, and fit their checksums; "" where there is no directory.
std::string version_of(const std::string& directory) {
  if (!fs::exists(directory)) return "";
  const std::string config = slurp(directory + "/config.json");
  std::string version = config.substr(config.rfind(' ') + 1);
  for (const std::string& name : kFiles) {
    const std::string path = store::join_path(directory, name);
    EXPECT_EQ(slurp(path), fmt::format("{} {}", name, version));
    store::verify_checksum(store::local_files(), path);
  }
  EXPECT_TRUE(fs::exists(directory + "/SHA256SUMS"));
  return version;
}

// Runs `action` in a process that ends before operation k; false when it came to its end.
bool dies_at(int64_t k, const std::function<void(store::FileSystem&)>& action) {
  const pid_t child = fork();
  if (child == 0) {
    FaultyFiles files(store::local_files());
    files.die_at(k);
    action(files);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == FaultyFiles::kDied));
  return WEXITSTATUS(status) == FaultyFiles::kDied;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ExportDirectory, IsOldOrNewWhereverTheProcessIsKilled) {
  TempDir dir;
  const std::string out = dir / "deep/out";
  int64_t kills = 0;
  const auto export_new = [&](store::FileSystem& files) { write_version(files, out, inference::Existing::kReplace, "new"); };
  for (; dies_at(kills, export_new); ++kills) EXPECT_THAT(version_of(out), AnyOf("", "new")) << kills;
  EXPECT_EQ(version_of(out), "new");
  EXPECT_GT(kills, 10);
  const auto export_newer = [&](store::FileSystem& files) {
    write_version(files, out, inference::Existing::kReplace, "newer");
  };
  int64_t over = 0;
  for (; dies_at(over, export_newer); ++over) EXPECT_THAT(version_of(out), AnyOf("new", "newer")) << over;
  EXPECT_EQ(version_of(out), "newer");
  EXPECT_GT(over, 10);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "deep"), {}), 1)
      << "what killed exports left is removed by the next one";
}

TEST(ExportDirectory, AnEmptyOneIsEmptyOrWholeWhereverTheProcessIsKilled) {
  TempDir dir;
  const std::string out = dir / "out";
  fs::create_directory(out);
  const auto export_new = [&](store::FileSystem& files) { write_version(files, out, inference::Existing::kRefuse, "new"); };
  int64_t kills = 0;
  for (; dies_at(kills, export_new); ++kills) {
    if (fs::is_empty(out)) continue;
    EXPECT_EQ(version_of(out), "new") << kills;
    fs::remove_all(out);
    fs::create_directory(out);
  }
  EXPECT_EQ(version_of(out), "new");
  EXPECT_GT(kills, 10);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1);
}

// The shell that it was started from stays in it.
TEST(ExportDirectory, TheOneItIsStartedInStays) {
  TempDir dir;
  const fs::path before = fs::current_path();
  fs::create_directory(dir / "out");
  fs::current_path(dir / "out");
  write_version(store::local_files(), ".", inference::Existing::kRefuse, "new");
  const bool named = fs::exists("model.safetensors");
  fs::current_path(before);
  EXPECT_TRUE(named);
  EXPECT_EQ(version_of(dir / "out"), "new");
}

TEST(ExportDirectory, EveryFailingCallLeavesTheOldOne) {
  TempDir dir;
  const std::string out = dir / "out";
  write_version(store::local_files(), out, inference::Existing::kRefuse, "old");
  FaultyFiles files(store::local_files());
  for (int64_t k = 0;; ++k) {
    files.fail_at(k, ENOSPC);
    try {
      write_version(files, out, inference::Existing::kReplace, "new");
      if (!files.fired()) break;
    } catch (const store::IoError& error) {
      EXPECT_EQ(error.number(), ENOSPC);
    }
    EXPECT_THAT(version_of(out), AnyOf("old", "new")) << k;
  }
  EXPECT_EQ(version_of(out), "new");
}

TEST(ExportDirectory, ReplacesOnRequestAndNothingButAnExport) {
  TempDir dir;
  store::FileSystem& files = store::local_files();
  const std::string out = dir / "out";
  fs::create_directory(out);
  write_version(files, out, inference::Existing::kRefuse, "one");  // an empty directory is as good as none
  EXPECT_THAT(refusal([&] { write_version(files, out, inference::Existing::kRefuse, "two"); }),
              AllOf(HasSubstr("is there already"), HasSubstr("--overwrite")));
  EXPECT_EQ(version_of(out), "one");
  fs::create_directory_symlink(out, dir / "link");
  write_version(files, dir / "link", inference::Existing::kReplace, "two");
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(version_of(out), "two");
  spill(out + "/notes.txt", "mine");
  EXPECT_THAT(refusal([&] { write_version(files, out, inference::Existing::kReplace, "three"); }),
              HasSubstr("holds more than an export: `notes.txt`"));
  EXPECT_EQ(slurp(out + "/notes.txt"), "mine");
  spill(dir / "file", "mine");
  EXPECT_THAT(refusal([&] { write_version(files, dir / "file", inference::Existing::kReplace, "three"); }),
              HasSubstr("is a file"));
}

TEST(ExportDirectory, ReplacesThatOfTheSameRunAndFormat) {
  TempDir dir;
  store::FileSystem& files = store::local_files();
  const std::string out = dir / "out", record = record_of("0123abcd", "timm");
  constexpr auto kRefuse = inference::Existing::kRefuse;
  write_version(files, out, kRefuse, "one", record);
  EXPECT_EQ(inference::export_record_at(files, out), record);
  store::verify_checksum(files, out + "/export.json");
  EXPECT_THAT(slurp(out + "/SHA256SUMS"), HasSubstr("  export.json\n"));
  write_version(files, out, kRefuse, "two", record);
  EXPECT_EQ(version_of(out), "two");
  for (const std::string& other :
       {record_of("4567", "timm"), record_of("0123abcd", "stablehlo"), record_of("0123abcd", "timm", 19),
        record_of("0123abcd", "timm", 20, state::Weights::kAverage), std::string()}) {
    EXPECT_THAT(refusal([&] { write_version(files, out, kRefuse, "three", other); }),
                AllOf(HasSubstr("is there already"), HasSubstr("another run"), HasSubstr("--overwrite")))
        << other;
  }
  spill(out + "/notes.txt", "mine");
  EXPECT_THAT(refusal([&] { write_version(files, out, kRefuse, "three", record); }), HasSubstr("`notes.txt`"));
  EXPECT_EQ(version_of(out), "two");
  fs::remove(out + "/notes.txt");
  write_version(files, out, kRefuse, "later", record_of("0123abcd", "timm", 21));
  EXPECT_EQ(version_of(out), "later");
  write_version(files, out, inference::Existing::kReplace, "four");
  EXPECT_EQ(inference::export_record_at(files, out), "") << "of weights that are none of a run's";
  EXPECT_NE(refusal([&] { write_version(files, out, kRefuse, "five", record); }), "");
  EXPECT_EQ(record_of("", "timm"), "");
}

TEST(ExportDirectory, OneThatWasChangedIsReplacedOnRequestAlone) {
  TempDir dir;
  store::FileSystem& files = store::local_files();
  const std::string out = dir / "out", record = record_of("0123abcd", "timm");
  constexpr auto kRefuse = inference::Existing::kRefuse;
  const auto refused = [&] { return refusal([&] { write_version(files, out, kRefuse, "two", record); }); };
  write_version(files, out, kRefuse, "one", record);
  spill(out + "/config.json", "mine");
  EXPECT_THAT(refused(), AllOf(HasSubstr("was changed since its export"), HasSubstr("SHA256SUMS"), HasSubstr("--overwrite")));
  EXPECT_EQ(slurp(out + "/config.json"), "mine");
  write_version(files, out, inference::Existing::kReplace, "one", record);
  spill(out + "/model.mlir", "mine");
  EXPECT_THAT(refused(), HasSubstr("was changed since its export")) << "a file that no checksum is of";
  fs::remove(out + "/model.mlir");
  fs::remove(out + "/SHA256SUMS");
  EXPECT_THAT(refused(), HasSubstr("SHA256SUMS` is gone"));
  EXPECT_EQ(slurp(out + "/config.json"), "config.json one");
}

// A directory beside it whose name only looks like a leftover is not touched.
TEST(ExportDirectory, RemovesOnlyItsOwnLeftovers) {
  TempDir dir;
  spill(dir / "precious", "mine");
  fs::create_directory(dir / "out.tmp-4");
  spill(dir / "out.tmp-4/thesis.tex", "mine");
  const std::string dead = "out.tmp-999999999", live = "out.tmp-1", named = "out.tmp-old";  // process 1 never ends
  for (const std::string& name : {dead, live, named}) {
    fs::create_directory(dir / name);
    spill(dir / (name + "/model.safetensors"), "weights");
  }
  fs::create_directory_symlink(dir.path(), dir / "out.tmp-3");
  write_version(store::local_files(), dir / "out", inference::Existing::kRefuse, "one");
  EXPECT_EQ(slurp(dir / "out.tmp-4/thesis.tex"), "mine");
  EXPECT_FALSE(fs::exists(dir / dead));
  EXPECT_EQ(slurp(dir / (live + "/model.safetensors")), "weights") << "of an export that goes on";
  EXPECT_EQ(slurp(dir / (named + "/model.safetensors")), "weights") << "somebody's own";
  EXPECT_EQ(slurp(dir / "precious"), "mine");
}

TEST(ExportFile, NeverStandsBesideAWrongChecksum) {
  TempDir dir;
  const std::string out = dir / "weights.npz";
  const auto export_version = [&](const std::string& version) {
    return [&, version](store::FileSystem& files) {
      inference::write_export_file(files, out, inference::Existing::kReplace,
                                   [&](const std::string& temporary) { store::write_atomic(files, temporary, version); });
    };
  };
  for (const char* version : {"first", "second"}) {
    int64_t k = 0;
    for (; dies_at(k, export_version(version)); ++k) {
      if (!fs::exists(out)) continue;
      EXPECT_THAT(slurp(out), AnyOf("first", version)) << k;
      store::verify_checksum(store::local_files(), out);
    }
    EXPECT_GT(k, 5);
    EXPECT_EQ(slurp(out), version);
    EXPECT_TRUE(fs::exists(out + ".sha256"));
  }
  EXPECT_THAT(refusal([&] { inference::check_export_file(store::local_files(), out, inference::Existing::kRefuse); }),
              HasSubstr("--overwrite"));
  spill(out, "changed");
  EXPECT_THAT(refusal([&] { store::verify_checksum(store::local_files(), out); }),
              AllOf(HasSubstr("`" + out + "` is damaged or was changed"), HasSubstr(out + ".sha256")));
}

TEST(ExportFile, NeverStandsBesideAnotherRunsRecord) {
  TempDir dir;
  const std::string out = dir / "weights.npz";
  const auto export_of = [&](const std::string& run, inference::Existing existing) {
    return [&, run, existing](store::FileSystem& files) {
      const auto write = [&](const std::string& temporary) { store::write_atomic(files, temporary, run); };
      inference::write_export_file(files, out, existing, write, record_of(run, "big_vision"));
    };
  };
  export_of("first", inference::Existing::kRefuse)(store::local_files());
  export_of("first", inference::Existing::kRefuse)(store::local_files());
  EXPECT_THAT(refusal([&] { export_of("second", inference::Existing::kRefuse)(store::local_files()); }),
              AllOf(HasSubstr("is there already"), HasSubstr("another run"), HasSubstr("--overwrite")));
  EXPECT_EQ(slurp(out), "first");
  const auto over = export_of("second", inference::Existing::kReplace);
  int64_t k = 0;
  for (; dies_at(k, over); ++k) {
    const std::string record = inference::export_record_at(store::local_files(), out);
    EXPECT_THAT(record, AnyOf("", record_of(slurp(out), "big_vision"))) << k;
  }
  EXPECT_GT(k, 5);
  EXPECT_EQ(inference::export_record_at(store::local_files(), out), record_of("second", "big_vision"));
}

TEST(ExportFile, WhatIsNoExportStays) {
  TempDir dir;
  store::FileSystem& files = store::local_files();
  const std::string out = dir / "weights.npz", beside = out + ".export.json";
  const auto write = [&](inference::Existing existing) {
    return refusal([&] {
      const auto fill = [&](const std::string& temporary) { store::write_atomic(files, temporary, "ours"); };
      inference::write_export_file(files, out, existing, fill, record_of("0123abcd", "big_vision"));
    });
  };
  spill(beside, "{}");
  EXPECT_THAT(write(inference::Existing::kReplace), AllOf(HasSubstr(beside), HasSubstr("is another file")));
  EXPECT_EQ(slurp(beside), "{}");
  EXPECT_FALSE(fs::exists(out));
  fs::remove(beside);
  EXPECT_EQ(write(inference::Existing::kRefuse), "");
  EXPECT_EQ(write(inference::Existing::kRefuse), "");
  fs::remove(out);
  EXPECT_EQ(write(inference::Existing::kRefuse), "") << "beside the record of an export that is gone";
  spill(out, "mine");
  EXPECT_THAT(write(inference::Existing::kRefuse),
              AllOf(HasSubstr("was changed since its export"), HasSubstr(out + ".sha256"), HasSubstr("--overwrite")));
  EXPECT_EQ(slurp(out), "mine");
  EXPECT_EQ(write(inference::Existing::kReplace), "");
  EXPECT_EQ(slurp(out), "ours");
}

TEST(Checksums, AreReadAsSha256sumWritesThem) {
  const std::string sum(64, 'a');
  const auto sums =
      store::parse_checksums("# a comment\n" + sum + "  one\n\n" + std::string(64, 'B') + " *././two words\r\n", "SHA256SUMS");
  EXPECT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums.at("one"), sum);
  EXPECT_EQ(sums.at("two words"), std::string(64, 'b'));
  for (const std::string& line : {std::string("x"), sum + " one", std::string(64, 'g') + "  one", sum + "  ", sum + "     ",
                                  sum + "  ./", "SHA256 (one) = " + sum}) {
    EXPECT_THAT(refusal([&] { store::parse_checksums("\n" + line, "SHA256SUMS"); }), HasSubstr("SHA256SUMS:2")) << line;
  }
}

}  // namespace
}  // namespace tessera::train
