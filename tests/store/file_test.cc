#include "store/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "store/faulty_files.h"
#include "store/local/lock.h"
#include "store/memory_files.h"
#include "store/temp_dir.h"
#include "support/no_more_files.h"

namespace {
int synced = 0;  // calls of fsync by this program
}

// In libc's place.
extern "C" int fsync(int descriptor) {
  ++synced;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace tessera::store {
namespace {

using ::testing::AllOf;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using testing::MemoryFiles;
using testing::slurp;
using testing::spill;
using testing::TempDir;

std::vector<std::string> names(FileSystem& files, const std::string& path) {
  std::vector<std::string> out;
  for (const FileInfo& entry : files.list(path)) out.push_back(entry.name);
  return out;
}

// Both implementations keep the same contract.
class AnyFiles : public ::testing::TestWithParam<bool> {
 protected:
  FileSystem& files() { return GetParam() ? static_cast<FileSystem&>(memory_) : local_files(); }
  std::string at(const std::string& name) { return join_path(GetParam() ? "work" : directory_.path(), name); }
  void SetUp() override {
    if (GetParam()) files().make_directories("work");
  }
  TempDir directory_;
  MemoryFiles memory_;
};
INSTANTIATE_TEST_SUITE_P(LocalAndMemory, AnyFiles, ::testing::Bool());

TEST_P(AnyFiles, WritesAndReadsBack) {
  const auto out = files().create(at("a"));
  out->write(as_bytes("hello "));
  out->write(as_bytes("world"));
  out->sync();
  out->close();
  EXPECT_EQ(read_text(files(), at("a")), "hello world");
  EXPECT_EQ(as_text(read_range(files(), at("a"), 4, 3)), "o w");
  EXPECT_EQ(as_text(files().map(at("a")).data), "hello world");
  EXPECT_EQ(files().info(at("a"))->size, 11);
  EXPECT_THROW(read_range(files(), at("a"), 10, 2), Error);
  EXPECT_THROW(read_range(files(), at("a"), 12, 0), Error);

  const auto more = files().append(at("a"));
  more->write(as_bytes("!"));
  more->flush();
  EXPECT_EQ(read_text(files(), at("a")), "hello world!");
  files().truncate(at("a"), 5);
  EXPECT_EQ(read_text(files(), at("a")), "hello");
}

TEST_P(AnyFiles, DirectoriesListRenameExchangeRemove) {
  files().make_directories(at("x/y/z"));
  files().make_directories(at("x/y"));
  write_atomic(files(), at("x/b"), "b");
  write_atomic(files(), at("x/a"), "a");
  EXPECT_EQ(names(files(), at("x")), (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_TRUE(files().info(at("x/y"))->directory);
  EXPECT_FALSE(files().info(at("nowhere")));
  EXPECT_FALSE(files().info(at("x/a/below_a_file")));
  files().exchange(at("x/a"), at("x/b"));
  EXPECT_EQ(read_text(files(), at("x/a")), "b");
  files().rename(at("x/a"), at("x/c"));
  EXPECT_EQ(names(files(), at("x")), (std::vector<std::string>{"b", "c", "y"}));
  EXPECT_THROW(files().remove_directory(at("x")), IoError);
  remove_tree(files(), at("x"));
  EXPECT_FALSE(files().info(at("x")));
}

TEST_P(AnyFiles, MissingFilesAreNamed) {
  try {
    read_text(files(), at("nowhere"));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.number(), ENOENT);
    EXPECT_EQ(error.code(), Exit::kData);
    EXPECT_THAT(error.what(), HasSubstr("cannot open `" + at("nowhere") + "`: No such file or directory"));
  }
  EXPECT_THROW(files().list(at("nowhere")), IoError);
  EXPECT_THROW(files().map(at("nowhere")), IoError);
  EXPECT_THROW(files().remove_file(at("nowhere")), IoError);
}

TEST_P(AnyFiles, AtomicWriteNeverHarmsTheOldContent) {
  FaultyFiles faulty(files());
  write_atomic(faulty, at("f"), "old");
  for (int64_t k = 0;; ++k) {
    ASSERT_LT(k, 100);
    faulty.fail_at(k, ENOSPC);
    try {
      write_atomic(faulty, at("f"), "new content");
    } catch (const IoError& error) {
      EXPECT_THAT(error.help(), HasSubstr("free some space"));
    }
    const bool fired = faulty.fired();
    faulty.disarm();
    const std::string now = read_text(files(), at("f"));
    EXPECT_TRUE(now == "old" || now == "new content") << now;
    EXPECT_EQ(files().list(parent_path(at("f"))).size(), 1u) << "a temporary file is left at operation " << k;
    if (!fired) break;
    write_atomic(faulty, at("f"), "old");
  }
  EXPECT_EQ(read_text(files(), at("f")), "new content");
}

TEST_P(AnyFiles, AtomicWriteOfAFileMadeInPieces) {
  const auto write = [&](const std::string& temporary) {
    const auto file = files().create(temporary);
    for (const char* piece : {"a", "b"}) file->write(as_bytes(piece));
    file->sync();
  };
  write_atomic(files(), at("f"), write);
  EXPECT_EQ(read_text(files(), at("f")), "ab");
  const auto fails = [&](const std::string& temporary) {
    write(temporary);
    throw data_error("no more pieces");
  };
  EXPECT_THROW(write_atomic(files(), at("f"), fails), Error);
  EXPECT_EQ(read_text(files(), at("f")), "ab");
  EXPECT_EQ(files().list(parent_path(at("f"))).size(), 1u);
}

TEST(LocalFiles, LargeAndSmallWritesKeepTheirOrder) {
  const TempDir directory;
  std::string expected;
  const auto out = local_files().create(directory / "f");
  for (int i = 0; i < 40; ++i) {
    const std::string part(static_cast<size_t>(i % 7 == 0 ? 300'000 : i * 1000), static_cast<char>('a' + i % 26));
    out->write(as_bytes(part));
    expected += part;
  }
  out->close();
  EXPECT_EQ(slurp(directory / "f"), expected);
}

TEST(LocalFiles, SyncReachesTheDevice) {
  const TempDir directory;
  auto& files = store::local_files();
  const auto file = files.create(directory / "a");
  file->write(as_bytes(std::string_view("text")));
  const int before = synced;
  file->sync();
  EXPECT_EQ(synced, before + 1) << "the file";
  EXPECT_EQ(read_text(files, directory / "a"), "text") << "what was written before it";
  file->close();
  EXPECT_EQ(synced, before + 1) << "closing is none";
  files.sync_directory(directory.path());
  EXPECT_EQ(synced, before + 2) << "the directory";
}

TEST(LocalFiles, AFullDeviceIsReported) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  const auto out = local_files().append("/dev/full");
  out->write(as_bytes("x"));
  try {
    out->flush();
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.number(), ENOSPC);
  }
}

// The system writes only a part of the bytes when a limit is near: the rest must be tried, and its failure told.
TEST(LocalFiles, AShortWriteIsContinuedThenReported) {
  const TempDir directory;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1'000'000, 1'000'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    int number = 0;
    try {
      const std::vector<std::byte> bytes(1'500'000);
      local_files().create(directory / "f")->write(bytes);
    } catch (const IoError& error) {
      number = error.number();
    }
    _exit(number == EFBIG ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(local_files().info(directory / "f")->size, 1'000'000);
}

TEST(LocalFiles, EmptyFilesAndDirectoriesCannotBeMistaken) {
  const TempDir directory;
  spill(directory / "empty", "");
  EXPECT_EQ(local_files().map(directory / "empty").size(), 0u);
  EXPECT_EQ(read_text(local_files(), directory / "empty"), "");
  EXPECT_THROW(local_files().map(directory.path()), IoError);
  EXPECT_THROW(local_files().open(directory.path()), IoError);
  EXPECT_THROW(local_files().make_directories(directory / "empty"), IoError);
}

TEST(LocalFiles, WhatIsNoRegularFileIsRefused) {
  const TempDir directory;
  ASSERT_EQ(mkfifo((directory / "pipe").c_str(), 0600), 0);
  const auto refused = [](const std::string& path, const std::string& kind) {
    for (const bool map : {false, true}) {
      try {
        map ? (void)local_files().map(path) : (void)local_files().open(path);
        ADD_FAILURE() << path << " was opened";
      } catch (const Error& error) {
        EXPECT_EQ(error.message(), fmt::format("`{}` is {}, not a regular file", path, kind));
      }
    }
  };
  refused(directory / "pipe", "a named pipe");
  refused("/dev/null", "a device");
}

#if !defined(__SANITIZE_ADDRESS__)  // see no_more_files.h
TEST(LocalFiles, NoMoreOpenFilesIsNoFaultOfTheFile) {
  const TempDir directory;
  spill(directory / "f", "content");
  {
    const tessera::testing::NoMoreFiles none;
    EXPECT_THROW(local_files().open(directory / "f"), OutOfFiles);
    EXPECT_THROW(local_files().map(directory / "f"), OutOfFiles);
    try {
      local_files().create(directory / "g");
      ADD_FAILURE();
    } catch (const IoError& error) {
      EXPECT_EQ(error.code(), Exit::kDevice);
      EXPECT_THAT(error.what(), HasSubstr("ulimit -n"));
    }
  }
  EXPECT_EQ(read_text(local_files(), directory / "f"), "content");
}
#endif

TEST(LocalFiles, AMappedFileOutlivesItsName) {
  const TempDir directory;
  spill(directory / "f", "still here");
  const Bytes bytes = local_files().map(directory / "f");
  local_files().remove_file(directory / "f");
  EXPECT_EQ(as_text(bytes.data), "still here");
}

TEST(LocalFiles, RemoveTreeDoesNotFollowLinks) {
  const TempDir directory;
  local_files().make_directories(directory / "outside");
  spill(directory / "outside/precious", "x");
  local_files().make_directories(directory / "tree");
  ASSERT_EQ(symlink((directory / "outside").c_str(), (directory / "tree/link").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", (directory / "tree/dangling").c_str()), 0);
  const auto link = local_files().info(directory / "tree/link");
  EXPECT_TRUE(link->symlink && link->directory);
  remove_tree(local_files(), directory / "tree");
  EXPECT_EQ(slurp(directory / "outside/precious"), "x");
}

TEST(LocalFiles, DirectoriesAreNotMadeBehindALink) {
  const TempDir directory;
  local_files().make_directories(directory / "outside");
  local_files().make_directories(directory / "tree");
  ASSERT_EQ(symlink((directory / "tree").c_str(), (directory / "root").c_str()), 0);
  ASSERT_EQ(symlink((directory / "outside").c_str(), (directory / "tree/link").c_str()), 0);
  make_directories_below(local_files(), directory / "root", "a/b");
  make_directories_below(local_files(), directory / "root", "a/b");
  EXPECT_TRUE(local_files().info(directory / "tree/a/b")->directory);
  for (const char* folders : {"link", "link/b"}) {
    try {
      make_directories_below(local_files(), directory / "root", folders);
      FAIL() << folders;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("root/link` is a symbolic link"), HasSubstr("remove the link")));
    }
  }
  EXPECT_TRUE(local_files().list(directory / "outside").empty());
}

TEST(LocalFiles, RemoveTreeOfALinkRemovesTheLink) {
  const TempDir directory;
  local_files().make_directories(directory / "outside");
  spill(directory / "outside/precious", "x");
  ASSERT_EQ(symlink((directory / "outside").c_str(), (directory / "link").c_str()), 0);
  remove_tree(local_files(), directory / "link");
  EXPECT_FALSE(local_files().info(directory / "link"));
  EXPECT_EQ(slurp(directory / "outside/precious"), "x");
  EXPECT_THROW(remove_tree(local_files(), directory / "nowhere"), IoError);
}

TEST(LocalFiles, WritesDoNotFollowALink) {
  const TempDir directory;
  spill(directory / "precious", "text");
  ASSERT_EQ(symlink((directory / "precious").c_str(), (directory / "link").c_str()), 0);
  ASSERT_EQ(symlink((directory / "new").c_str(), (directory / "dangling").c_str()), 0);
  EXPECT_THROW(local_files().create(directory / "link"), IoError);
  EXPECT_THROW(local_files().append(directory / "link"), IoError);
  EXPECT_THROW(local_files().truncate(directory / "link", 0), IoError);
  EXPECT_THROW(local_files().create(directory / "dangling"), IoError);
  EXPECT_EQ(slurp(directory / "precious"), "text");
  EXPECT_FALSE(local_files().info(directory / "new"));
}

// What an open directory does happens in it, wherever it is now, and not where a link in its place leads.
TEST(LocalFiles, AnOpenDirectoryIsHeldWhateverItsPath) {
  const TempDir directory;
  for (const char* name : {"tree/inner", "outside/inner"}) {
    local_files().make_directories(directory / name);
    spill(directory / name + "/file", "x");
  }
  const auto tree = local_files().open_directory(directory / "tree");
  EXPECT_EQ(tree->id(), local_files().info(directory / "tree")->id);
  local_files().rename(directory / "tree", directory / "moved");
  ASSERT_EQ(symlink((directory / "outside").c_str(), (directory / "tree").c_str()), 0);
  EXPECT_NE(tree->id(), local_files().info(directory / "tree")->id);
  EXPECT_EQ(tree->id(), local_files().info(directory / "moved")->id);
  const auto inner = tree->open("inner");
  EXPECT_EQ(inner->list().at(0).name, "file");
  inner->remove_file("file");
  tree->remove_directory("inner");
  tree->sync();
  EXPECT_TRUE(tree->list().empty());
  EXPECT_EQ(slurp(directory / "outside/inner/file"), "x");
}

// Also where another one has taken its path.
TEST_P(AnyFiles, AnAtomicWriteIntoAnOpenDirectory) {
  files().make_directories(at("d"));
  const auto held = files().open_directory(at("d"));
  files().rename(at("d"), at("aside"));
  files().make_directories(at("d"));
  write_atomic(*held, "f", "old");
  write_atomic(*held, "f", "new");
  EXPECT_EQ(read_text(files(), at("aside/f")), "new");
  EXPECT_EQ(names(files(), at("aside")), (std::vector<std::string>{"f"}));
  EXPECT_TRUE(files().list(at("d")).empty());
  EXPECT_THROW(held->create("f"), IoError);
}

TEST(LocalFiles, AnOpenDirectoryFollowsNoLink) {
  const TempDir directory;
  local_files().make_directories(directory / "outside");
  local_files().make_directories(directory / "tree");
  ASSERT_EQ(symlink((directory / "outside").c_str(), (directory / "tree/link").c_str()), 0);
  const auto tree = local_files().open_directory(directory / "tree");
  EXPECT_TRUE(tree->info("link")->symlink);
  EXPECT_FALSE(tree->info("link")->directory);
  EXPECT_FALSE(tree->info("nowhere"));
  EXPECT_THROW(tree->open("link"), IoError);
  EXPECT_THROW(tree->info("../outside"), InternalError);
}

TEST(LocalFiles, AnAtomicWriteDoesNotFollowALinkInItsTemporaryPlace) {
  const TempDir directory;
  spill(directory / "precious", "x");
  ASSERT_EQ(symlink((directory / "precious").c_str(), (directory / fmt::format("f.tmp-{}", getpid())).c_str()), 0);
  write_atomic(local_files(), directory / "f", "new");
  EXPECT_EQ(slurp(directory / "f"), "new");
  EXPECT_EQ(slurp(directory / "precious"), "x");
  EXPECT_FALSE(local_files().info(directory / "f")->symlink);
}

TEST(Paths, JoinAndParent) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("a"), ".");
}

TEST(MemoryFiles, APowerCutLosesWhatWasNotSynced) {
  for (const auto loss : {MemoryFiles::Loss::kAllLost, MemoryFiles::Loss::kNamesKept, MemoryFiles::Loss::kContentsTorn}) {
    MemoryFiles files;
    files.make_directories("d");
    write_atomic(files, "d/durable", "kept");
    const auto out = files.create("d/loose");
    out->write(as_bytes("12345678"));
    files.restart(loss);
    EXPECT_EQ(read_text(files, "d/durable"), "kept");
    EXPECT_EQ(files.info("d/loose").has_value(), loss != MemoryFiles::Loss::kAllLost);
    if (loss == MemoryFiles::Loss::kAllLost) continue;
    EXPECT_EQ(read_text(files, "d/loose"), loss == MemoryFiles::Loss::kNamesKept ? "" : "1234");
  }
}

TEST(DirectoryLock, ASecondRunIsRefusedByName) {
  const TempDir directory;
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready) | pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    const DirectoryLock lock(directory.path());
    char byte = 'x';
    const bool ok = write(ready[1], &byte, 1) == 1;
    close(done[1]);
    _exit(ok && read(done[0], &byte, 1) == 0 ? 0 : 1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  try {
    const DirectoryLock lock(directory.path());
    ADD_FAILURE() << "two runs hold the lock";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("`{}` is in use by process {} on ", directory.path(), child)));
    EXPECT_THAT(error.help(), HasSubstr("--workdir"));
  }
  close(done[1]);
  waitpid(child, nullptr, 0);
  const DirectoryLock lock(directory.path());  // the end of a process frees it
  EXPECT_THAT(slurp(directory / ".lock"), HasSubstr(fmt::format("process {} on ", getpid())));
}

TEST(DirectoryLock, IsTakenAgainWhereItsFileWasRemovedOrReplaced) {
  const TempDir directory;
  DirectoryLock lock(directory.path());
  EXPECT_FALSE(lock.renew());
  local_files().remove_file(directory / ".lock");
  EXPECT_TRUE(lock.renew());
  EXPECT_FALSE(lock.renew());
  EXPECT_THROW(DirectoryLock(directory.path()), Error) << "the new file is not locked";
  spill(directory / "other", "");
  local_files().rename(directory / "other", directory / ".lock");
  EXPECT_TRUE(lock.renew());
  EXPECT_THROW(DirectoryLock(directory.path()), Error) << "the other file is not locked";
  local_files().remove_file(directory / ".lock");
  const DirectoryLock second(directory.path());
  EXPECT_THROW(lock.renew(), Error) << "two hold the directory";
}

TEST(DirectoryLock, DoesNotFollowALink) {
  const TempDir directory;
  spill(directory / "precious", "x");
  ASSERT_EQ(symlink((directory / "precious").c_str(), (directory / ".lock").c_str()), 0);
  try {
    const DirectoryLock lock(directory.path());
    ADD_FAILURE() << "the link was followed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is a symbolic link"));
  }
  EXPECT_EQ(slurp(directory / "precious"), "x");
}

TEST(DirectoryLock, MissingDirectoryIsAnError) { EXPECT_THROW(DirectoryLock("/nonexistent/dir"), IoError); }

}  // namespace
}  // namespace tessera::store
