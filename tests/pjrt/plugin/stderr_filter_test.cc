#include "pjrt/plugin/stderr_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "pjrt/pjrt_testing.h"
#include "pjrt/plugin/error.h"

namespace tessera::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;
using ::testing::Not;

// Capturing lasts until the process ends, so every test does it in a process of its own.
class StderrFilter : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer's reports need descriptor 2";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

void to_stderr(const std::string& text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(9);
}

TEST_F(StderrFilter, KeepsNoiseAwayAndMessagesVisible) {
  EXPECT_FALSE(stderr_captured());
  EXPECT_EQ(captured_stderr(), "");
  EXPECT_EXIT(
      {
        capture_stderr();
        capture_stderr();
        to_stderr("E0000 noise\n");
        log_line("a message");
        _exit(stderr_captured() && captured_stderr() == "E0000 noise\n" && captured_stderr(6) == "noise\n" ? 0 : 1);
      },
      ExitedWithCode(0), AllOf(HasSubstr("a message\n"), Not(HasSubstr("noise"))));
}

TEST_F(StderrFilter, CatchesThePlugin) {
  EXPECT_EXIT(
      {
        capture_stderr();
        Client::create(cpu_plugin(), {.cpu_device_count = 3});
        _exit(captured_stderr().find("cpu_device_count set via create_options: 3") != std::string::npos ? 0 : 1);
      },
      ExitedWithCode(0), Not(HasSubstr("cpu_device_count")));
}

// Why no client comes of the plugin.
std::string client_failure(int fake) {
  try {
    Client::create(Plugin::load(testing::fake_plugin_path(fake)));
  } catch (const PjrtError& error) {
    return error.message();
  }
  return {};
}

TEST_F(StderrFilter, AnErrorHasTheMessagesOfItsPluginAlone) {
  EXPECT_EXIT(
      {
        capture_stderr();
        const std::string first = client_failure(5);
        const std::string second = client_failure(6);
        log_line(first + second);
        const bool good = first.ends_with("the plugin's messages:\nW0000 no driver for fake 5") &&
                          second.ends_with("the plugin's messages:\nW0000 no driver for fake 6");
        _exit(good ? 0 : 1);
      },
      ExitedWithCode(0), HasSubstr("fake 6"));
}

TEST_F(StderrFilter, ADyingProcessShowsTheLastWords) {
  EXPECT_EXIT(
      {
        capture_stderr();
        to_stderr(std::string(20000, '-') + "\n");
        to_stderr("F0000 check failed in the plugin\n");
        std::abort();
      },
      KilledBySignal(SIGABRT), HasSubstr("F0000 check failed in the plugin\nerror: a library ended the program"));
}

// As absl's LOG(QFATAL) does. Where the last words are none of it, the process ends as it was to.
TEST_F(StderrFilter, ALibraryThatEndsTheProcessIsHeard) {
  const auto end_after = [](const std::string& words) {
    capture_stderr();
    to_stderr("W1129 00:14:12.000000    1448 other.cc:1] noise\n" + words + "\n");
    _exit(1);
  };
  EXPECT_EXIT(end_after("F1129 00:14:13.913786    1448 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_x"),
              ExitedWithCode(4), "^error: a library ended the program: Unknown flag in XLA_FLAGS: --xla_x\n$");
  for (const char* words : {"F1129 without a place", "First] of all", "E1129 00:14:13.9    1448 some.cc:2] an error"})
    EXPECT_EXIT(end_after(words), ExitedWithCode(1), "^$") << words;
}

TEST_F(StderrFilter, AFlagThatXlaDoesNotKnowIsHeard) {
  EXPECT_EXIT(
      {
        capture_stderr();
        ::setenv("XLA_FLAGS", "--xla_no_such_flag=1", 1);
        Client::create(cpu_plugin())->compile("module { func.func @main() { return } }");
      },
      ExitedWithCode(4), HasSubstr("error: a library ended the program: Unknown flag in XLA_FLAGS: --xla_no_such_flag=1"));
}

void* map(size_t size) { return mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }

// From now on the system refuses every page, until what this gives is unmapped.
std::pair<void*, size_t> use_up_addresses() {
  const rlimit limit{size_t{1} << 30, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(9);
  const size_t large = limit.rlim_cur / 2;
  void* const first = map(large);
  for (size_t size = large; size >= 4096; size /= 2) {
    while (map(size) != MAP_FAILED) continue;
  }
  return {first, large};
}

TEST_F(StderrFilter, AFaultAfterMemoryWasRefusedNamesTheLimit) {
  EXPECT_EXIT(
      {
        capture_stderr();
        const auto others = use_up_addresses();
        munmap(others.first, others.second);  // as other threads that fail give their memory back
        to_stderr("W0000 no memory for a table\n");
        raise(SIGSEGV);
      },
      ExitedWithCode(4),
      AllOf(HasSubstr("W0000 no memory for a table\n"
                      "error: the memory that this process may take is used up (`ulimit -v` is 1024 MiB)\n"
                      "help: make `data.batch`"),
            HasSubstr("\nnote: a library or this program failed (signal 11) near that limit")));
}

TEST_F(StderrFilter, AThreadThatALibraryDidNotGetNamesTheLimit) {
  EXPECT_EXIT(
      {
        capture_stderr();
        to_stderr("F0000 env.cc:84] Check failed: ret == 0 (11 vs. 0) Thread creation via pthread_create() failed.\n");
        std::abort();
      },
      ExitedWithCode(4),
      AllOf(HasSubstr("error: the system refuses another thread"), HasSubstr("\nnote: a library ended the program")));
}

// Root has no limit of threads; in a container it may be the only user.
constexpr uid_t kNobody = 65534;
bool becomes_nobody() { return geteuid() != 0 || setresuid(kNobody, kNobody, kNobody) == 0; }

TEST_F(StderrFilter, NoMoreThreadsNameTheLimit) {
  const pid_t trial = fork();
  if (trial == 0) _exit(becomes_nobody() ? 0 : 1);
  int status = 0;
  waitpid(trial, &status, 0);
  if (status != 0) GTEST_SKIP() << "needs a user beside root";
  EXPECT_EXIT(
      {
        capture_stderr();
        rlimit none{};
        if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(9);
        if (!becomes_nobody()) _exit(9);
        std::abort();
      },
      ExitedWithCode(4),
      HasSubstr("error: the system refuses another thread (`ulimit -u` is 0)\nhelp: set `data.threads` lower"));
}

// Of several threads the first tells; the others don't end the process before it has.
TEST_F(StderrFilter, ThreadsThatFailTogetherEndWithOneMessage) {
  EXPECT_EXIT(
      {
        capture_stderr();
        std::atomic<bool> go{false};
        const auto fail = [&go] {
          go.wait(false);
          raise(SIGSEGV);
        };
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i) threads.emplace_back(fail);
        use_up_addresses();
        go = true;
        go.notify_all();
        for (std::thread& thread : threads) thread.join();
      },
      ExitedWithCode(4), HasSubstr("(`ulimit -v` is 1024 MiB)"));
}

TEST_F(StderrFilter, StaysSmall) {
  EXPECT_EXIT(
      {
        capture_stderr();
        for (int i = 0; i < 5; ++i) to_stderr(std::string(1 << 20, 'x'));
        to_stderr("the end\n");
        trim_captured_stderr();
        const std::string kept = captured_stderr(1 << 30);
        to_stderr("more\n");
        const bool good = kept.size() == 64 << 10 &&
                          kept.ends_with(
                              "x"
                              "the end\n") &&
                          captured_stderr(13) == "the end\nmore\n";
        _exit(good ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(StderrFilter, CanBeTurnedOff) {
  EXPECT_EXIT(
      {
        setenv("TESSERA_PLUGIN_STDERR", "1", 1);
        capture_stderr();
        to_stderr("E0000 noise\n");
        _exit(stderr_captured() ? 1 : 0);
      },
      ExitedWithCode(0), HasSubstr("noise"));
}

}  // namespace
}  // namespace tessera::pjrt
