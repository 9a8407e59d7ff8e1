#include "train/process/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/system/process.h"
#include "cluster/group/local_etcd.h"

namespace tessera::train {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What each of three processes, which are threads here, is told when they compare values.
std::vector<std::string> compare(const std::string& run, const std::vector<std::string>& values, const Explain& explain) {
  const group::LocalEtcd etcd;
  std::vector<std::string> told(values.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < values.size(); ++i) {
    threads.emplace_back([&, i] {
      Processes processes({static_cast<int64_t>(i), static_cast<int64_t>(values.size()), etcd.address(), run});
      try {
        processes.expect_same("the recipe", values[i], explain);
        processes.compare_clocks();
        processes.leave();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::kUsage);
        told[i] = error.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

TEST(Processes, AreToldWhatDiffersWhereAndHow) {
  const std::string same = "seed = 1\n[optimizer]\nlr = \"0.1\"\n";
  EXPECT_THAT(compare("same", {same, same, same}, keys_that_differ), Each(IsEmpty()));
  const std::string host = host_name();
  EXPECT_THAT(compare("other", {same, "seed = 2\n[optimizer]\nlr = \"0.1\"\ndecay = 3\n", same}, keys_that_differ),
              Each("the recipe differs from that of process 0\n  process 1 on " + host +
                   "\n    optimizer.decay = 3   process 0: (absent)\n    seed = 2   process 0: 1"));
  EXPECT_THAT(compare("two", {"a\nb", "a", "c\nb"}, lines_that_differ),
              Each("the recipe differs from that of process 0\n  process 1 on " + host +
                   "\n    (absent)   process 0: b\n  process 2 on " + host + "\n    c   process 0: a"));
}

// Each sees the other one live.
TEST(Processes, ABrokenConnectionIsMendedByAnotherStart) {
  const group::LocalEtcd etcd;
  const auto place = [&](int64_t process) { return group::Place{process, 2, etcd.address(), "broken"}; };
  const pid_t child = ::fork();
  if (child == 0) {
    Processes processes(place(1));
    processes.connect();
    processes.gather("whole");
    for (int descriptor = 3; descriptor < 1024; ++descriptor) ::shutdown(descriptor, SHUT_RDWR);  // those that are sockets
    std::this_thread::sleep_for(std::chrono::hours(1));
    ::_exit(0);
  }
  {
    Processes processes(place(0));
    processes.connect();
    processes.gather("whole");
    EXPECT_THROW(processes.gather("broken"), Error);
    const std::exception_ptr failure =
        processes.wait_for_news(std::make_exception_ptr(device_error("what the plugin says of a program that made the call")));
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kPreempted);
      EXPECT_THAT(error.message(), HasSubstr("the connection to another process broke: what the plugin says"));
    }
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Processes, LinesAreComparedByTheirPlace) {
  EXPECT_THAT(lines_that_differ("data: 3\nval: 4", "data: 3\nval: 5"), ElementsAre("val: 5   process 0: val: 4"));
}

}  // namespace
}  // namespace tessera::train
