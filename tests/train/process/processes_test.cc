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
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/line_listener.h"
#include "base/log.h"
#include "base/system/process.h"
#include "cluster/group/local_etcd.h"

namespace tessera::train {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The error of each of three processes, which are threads here, when they compare values.
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

// `body` in a process of its own, which is killed when this object dies.
class Forked {
 public:
  explicit Forked(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    try {
      body();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  ~Forked() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

  bool ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }
  int exit_code() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

// Each sees the other one live.
TEST(Processes, ABrokenConnectionIsMendedByAnotherStart) {
  const group::LocalEtcd etcd;
  const auto place = [&](int64_t process) { return group::Place{process, 2, etcd.address(), "broken"}; };
  const Forked other([&] {
    Processes processes(place(1));
    processes.connect();
    processes.gather("whole");
    for (int descriptor = 3; descriptor < 1024; ++descriptor) ::shutdown(descriptor, SHUT_RDWR);  // those that are sockets
    std::this_thread::sleep_for(std::chrono::hours(1));
  });
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

// One that is there, and ends when another one fails.
void stay(const group::Place& place) {
  Processes processes(place);
  processes.expect_same("that all are there", "");
  std::this_thread::sleep_for(std::chrono::hours(1));
}

TEST(Processes, EndWithTheCodeOfTheOneThatFailed) {
  const group::LocalEtcd etcd;
  const auto code_of_other = [&](const std::string& run, const std::exception_ptr& failure) {
    const auto place = [&](int64_t process) { return group::Place{process, 2, etcd.address(), run}; };
    Forked other([&] { stay(place(1)); });
    {
      Processes processes(place(0));
      processes.expect_same("that all are there", "");
      processes.fail(failure);
    }
    return other.exit_code();
  };
  EXPECT_EQ(code_of_other("diverged", std::make_exception_ptr(Error(Exit::kDiverged, "the loss is not finite"))), 5);
  EXPECT_EQ(code_of_other("lost", std::make_exception_ptr(Error(Exit::kPreempted, "another process is lost"))), 75);
}

// mpirun ends all processes when one has ended: the one that failed has shown why by then.
TEST(Processes, ShowTheirErrorBeforeTheOthersEnd) {
  const group::LocalEtcd etcd;
  const auto place = [&](int64_t process) { return group::Place{process, 2, etcd.address(), "shown"}; };
  Forked other([&] { stay(place(1)); });
  Processes processes(place(0));
  processes.expect_same("that all are there", "");
  std::vector<std::pair<std::string, bool>> shown;
  set_line_listener([&](const std::string& line) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    shown.emplace_back(line, other.ended());
  });
  processes.fail(std::make_exception_ptr(data_error("the table of labels is damaged")));
  log_error_once("the table of labels is damaged");  // as main() does
  set_line_listener(nullptr);
  EXPECT_THAT(shown, ElementsAre(std::pair("error: the table of labels is damaged", false)));
  EXPECT_EQ(other.exit_code(), 3);
}

// All diverge alike, and the leader has its record to write: it is the first to tell, however long that takes.
TEST(Processes, ADivergenceIsToldByTheLeader) {
  const group::LocalEtcd etcd;
  const auto place = [&](int64_t process) { return group::Place{process, 2, etcd.address(), "diverged"}; };
  const auto diverged = std::make_exception_ptr(Error(Exit::kDiverged, "the loss is not finite"));
  // The leader would be ended with code 5 too, but not by itself.
  Forked leader([&] {
    Processes processes(place(0));
    processes.expect_same("that all are there", "");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    processes.fail(diverged);
    ::_exit(77);
  });
  Forked other([&] {
    Processes processes(place(1));
    processes.expect_same("that all are there", "");
    processes.fail(diverged);
    ::_exit(78);
  });
  EXPECT_EQ(leader.exit_code(), 77);
  EXPECT_THAT(other.exit_code(), AnyOf(5, 78));
}

TEST(Processes, AClockThatIsWrongIsTold) {
  using std::chrono::seconds;
  for (const seconds right : {seconds(0), seconds(59), seconds(-59)}) EXPECT_EQ(clock_note(1, right), "");
  EXPECT_THAT(clock_note(2, seconds(90)), HasSubstr("the clock of process 2 is 90 s ahead of that of process 0"));
  EXPECT_THAT(clock_note(3, seconds(-3600)), HasSubstr("the clock of process 3 is 3600 s behind that of process 0"));
}

TEST(Processes, LinesAreComparedByTheirPlace) {
  EXPECT_THAT(lines_that_differ("data: 3\nval: 4", "data: 3\nval: 5"), ElementsAre("val: 5   process 0: val: 4"));
}

}  // namespace
}  // namespace tessera::train
