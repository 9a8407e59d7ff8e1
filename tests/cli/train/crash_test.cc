// A bug of the program: one paragraph, and a file that says what is needed to find it.

#include "cli/crash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "cli/run_program.h"
#include "monitor/sinks/sink_thread.h"
#include "store/file.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

void crash_in(const fs::path& folder, const std::string& workdir) {
  fs::current_path(folder);
  install_crash_handler();
  crash_context().workdir = workdir;
  crash_context().command = "tessera train broken.toml";
  crash_context().recipe = "broken.toml";
  std::thread([] { TESSERA_CHECK(1 + 1 == 3, "sum of {}", "ones"); }).join();
}

fs::path only_file(const fs::path& folder) {
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << folder;
  return fs::directory_iterator(folder)->path();
}

TEST(Crash, LeavesAFileWithCommandRecipeReasonAndStack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path folder = fs::temp_directory_path() / "tessera_crash_test";
  fs::remove_all(folder);
  write_file(folder / "broken.toml", "seed = 7\n");
  fs::create_directory(folder / "run");
  EXPECT_EXIT(crash_in(folder, "run"), ::testing::ExitedWithCode(1), "This is a bug of the program, not of yours. `run/crash-");
  const fs::path file = only_file(folder / "run");
  EXPECT_TRUE(file.filename().string().starts_with("crash-")) << file;
  const std::string report = read_file(file);
  EXPECT_THAT(report, HasSubstr("tessera 0."));
  EXPECT_THAT(report, HasSubstr("command: tessera train broken.toml"));
  EXPECT_THAT(report, HasSubstr("1 + 1 == 3: sum of ones"));
  EXPECT_THAT(report, HasSubstr("seed = 7"));
  EXPECT_THAT(report, HasSubstr("test_cli"));  // frames of the stack
  fs::remove_all(folder);
}

// Nobody may foresee its name, and nobody else may read it.
TEST(Crash, WithoutARunTheFileHasARandomNameAndIsTheUsersAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path folder = fs::temp_directory_path() / "tessera_crash_test_temporary";
  fs::remove_all(folder);
  write_file(folder / "broken.toml", "seed = 7\n");
  fs::create_directory(folder / "temporary");
  EXPECT_EXIT(
      {
        ::setenv("TMPDIR", (folder / "temporary").c_str(), 1);
        crash_in(folder, (folder / "no such run").string());
      },
      ::testing::ExitedWithCode(1), "tessera-crash-");
  const fs::path file = only_file(folder / "temporary");
  EXPECT_THAT(read_file(file), HasSubstr("1 + 1 == 3: sum of ones"));
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(only_file(folder / "temporary"), file);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2) << "nothing in the working directory";
  fs::remove_all(folder);
}

class BrokenSink final : public monitor::Sink {
 public:
  void begin(const monitor::RunStart&) override {}
  void write(const monitor::Record&) override { TESSERA_CHECK(false, "of the test"); }
};

// What a sink can't write costs its records; that we made a mistake ends the run.
TEST(Crash, AFailedCheckOnAThreadThatOutlivesErrorsEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempFolder folder;
  EXPECT_EXIT(
      {
        ::setenv("TMPDIR", folder.path().c_str(), 1);
        install_crash_handler();
        monitor::SinkThread thread("broken", std::make_unique<BrokenSink>(), {});
        thread.put(std::make_shared<const monitor::Record>(monitor::Record{1, 0, monitor::Text{"name", "text"}}));
        thread.finish();
      },
      ::testing::ExitedWithCode(1), "internal error at .*: of the test\n.*This is a bug of the program, not of yours");
}

// Wherever it is thrown, and whoever fails to catch it.
template <class Refused>
void starve(const Refused& refused) {
  install_crash_handler();
  std::thread([&] { throw refused; }).join();
}

TEST(Crash, MemoryThreadsAndFilesThatAreRefusedAreNoBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(starve(std::bad_alloc()), ::testing::ExitedWithCode(4), "memory .* is used up");
  const std::system_error threads(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_EXIT(starve(threads), ::testing::ExitedWithCode(4), "the system refuses another thread: .*ulimit -u");
  EXPECT_EXIT(starve(store::OutOfFiles(EMFILE, "a.jpg")), ::testing::ExitedWithCode(4),
              "cannot open `a.jpg`: Too many open files \\(`ulimit -n` is .*raise the limit of open files: `ulimit -n`");
  EXPECT_EXIT(starve(store::OutOfFiles(ENFILE, "a.jpg")), ::testing::ExitedWithCode(4), "fs.file-max");
}

}  // namespace
}  // namespace tessera::cli
