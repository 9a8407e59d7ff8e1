#include "cluster/group/members.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/system/temporary_directory.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "cluster/group/local_etcd.h"
#include "cluster/group/run_key.h"
#include "http/client.h"
#include "support/free_port.h"

namespace tessera::group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// One for all tests; each has a run of its own.
const LocalEtcd& etcd() {
  static const LocalEtcd one;
  return one;
}

Place place(const std::string& run, int64_t process, int64_t count) { return {process, count, etcd().address(), run}; }

void nobody_is_lost(const std::string& who, Exit) { ADD_FAILURE() << who; }

// Collects news, and waits for them.
class News {
 public:
  Lost taker() {
    return [this](const std::string& who, Exit exit) { told_.set_value(fmt::format("{} {}", static_cast<int>(exit), who)); };
  }
  std::string wait() { return told_.get_future().get(); }  // "75 process 1 is gone"

 private:
  std::promise<std::string> told_;
};

// `body` in each of so many processes, which are threads here.
void in_each(const std::string& run, int64_t count, const std::function<void(Members&)>& body) {
  etcd();  // ends with the thread that makes it
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      const auto members = join_by_etcd(place(run, i, count), nobody_is_lost);
      body(*members);
      members->leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Members, TellEachOtherValuesOfAnyBytes) {
  const std::string bytes("a\0\xff\n/", 5);
  in_each("values", 3, [&](Members& members) {
    members.put("of/" + std::to_string(members.process_id()), bytes + std::to_string(members.process_id()));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(members.get("of/" + std::to_string(i), seconds(60)), bytes + std::to_string(i));
    EXPECT_THAT(members.find_all("of/"),
                ElementsAre(Pair("of/0", bytes + "0"), Pair("of/1", bytes + "1"), Pair("of/2", bytes + "2")));
    EXPECT_THAT(members.find_all("off/"), IsEmpty());
  });
}

TEST(Members, NobodyPassesABarrierBeforeAllAreThere) {
  std::atomic<int> there = 0;
  in_each("barrier", 4, [&](Members& members) {
    std::this_thread::sleep_for(milliseconds(30 * members.process_id()));
    ++there;
    members.barrier("first", seconds(60));
    EXPECT_EQ(there, 4);
    members.barrier("second", seconds(60));
  });
}

TEST(Members, ABarrierNamesTheAbsent) {
  in_each("absent", 3, [&](Members& members) {
    if (members.process_id() == 1) {
      members.get("done", seconds(60));
      return;
    }
    try {
      members.barrier("lunch", milliseconds(300));
      ADD_FAILURE() << "passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kPreempted);
      EXPECT_THAT(error.message(), HasSubstr("process 1 of 3 did not come to the barrier `lunch` within"));
    }
    members.put("done", "");
  });
}

TEST(Members, WhoDoesNotComeIsNamed) {
  try {
    join_by_etcd(place("alone", 1, 4), nobody_is_lost, {.meeting = seconds(1)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kPreempted);
    EXPECT_THAT(error.message(), HasSubstr("processes 0, 2, 3 of 4 did not come within 1 seconds"));
  }
}

// A group lasts longer than what its processes put would stay without them.
TEST(Members, WhatIsPutStaysWhileItsProcessLives) {
  etcd();
  const MembersOptions options{.patience = seconds(3), .kept = seconds(3)};
  const auto members = join_by_etcd(place("long", 0, 1), nobody_is_lost, options);
  members->put("early", "here");
  std::this_thread::sleep_for(seconds(8));
  EXPECT_EQ(members->get("early", seconds(1)), "here");
  members->put("late", "here too");
  members->barrier("end", seconds(5));
  members->leave();
}

TEST(Members, AnOrderlyEndIsNoLoss) {
  in_each("leave", 2, [&](Members& members) {
    if (members.process_id() == 1) return;  // leaves first
    std::this_thread::sleep_for(seconds(3));
  });
}

// Process 1 of 2 in a process of its own, which ends as `signal` says. `meanwhile` happens when both have met.
void loses_a_process(
    const std::string& run, int signal, const std::string& address = etcd().address(), const std::string& key = {},
    const MembersOptions& options = {.patience = seconds(3)},
    const std::function<void(Members&)>& meanwhile = [](Members&) {}) {
  const auto place = [&](const std::string& of, int64_t process, int64_t count) {
    return Place{process, count, address, of, key};
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const auto members = join_by_etcd(
        place(run, 1, 2), [](const std::string&, Exit) {}, options);
    members->put("ready", "");
    std::this_thread::sleep_for(std::chrono::hours(1));
    ::_exit(0);
  }
  News news;
  const auto members = join_by_etcd(place(run, 0, 2), news.taker(), options);
  members->get("ready", seconds(60));
  meanwhile(*members);
  ::kill(child, signal);
  EXPECT_EQ(news.wait(), "75 process 1 is gone");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  members->leave();
}
TEST(Members, AKilledProcessIsMissed) { loses_a_process("killed", SIGKILL); }
TEST(Members, AStoppedProcessIsMissed) { loses_a_process("stopped", SIGSTOP); }

// One etcd of three members, which end with this object and with the thread that made it.
class ThreeMembers {
 public:
  ThreeMembers() {
    const auto url = [](uint16_t port) { return fmt::format("http://127.0.0.1:{}", port); };
    std::vector<uint16_t> clients, peers;
    std::string cluster;
    for (size_t i = 0; i < 3; ++i) {
      clients.push_back(testing::free_port());
      peers.push_back(testing::free_port());
      cluster += fmt::format("{}m{}={}", i ? "," : "", i, url(peers[i]));
      address_ += fmt::format("{}127.0.0.1:{}", i ? "," : "", clients[i]);
    }
    for (size_t i = 0; i < 3; ++i) {
      const std::string own = url(clients[i]), peer = url(peers[i]);
      start({"etcd", "--name", fmt::format("m{}", i), "--data-dir", fmt::format("{}/{}", directory_.path(), i),
             "--listen-client-urls", own, "--advertise-client-urls", own, "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster, "--logger", "zap", "--log-level", "error"});
    }
    for (size_t i = 0; i < 3; ++i) {
      while (!answers(fmt::format("127.0.0.1:{}", clients[i]))) {
        if (::waitpid(pids_[i], nullptr, WNOHANG) != 0) throw std::runtime_error("etcd does not start");
        std::this_thread::sleep_for(milliseconds(20));
      }
    }
  }
  ~ThreeMembers() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  ThreeMembers(const ThreeMembers&) = delete;
  ThreeMembers& operator=(const ThreeMembers&) = delete;

  const std::string& address() const { return address_; }
  // Its history up to now is kept no longer.
  void compact() const {
    const http::Endpoint first = *http::parse_endpoint(address_.substr(0, address_.find(',')), "");
    const auto ask = [&](const char* path, const std::string& question) {
      return http::post_json(first, path, question, seconds(60)).body;
    };
    const std::string answer = ask("/v3/kv/range", fmt::format(R"({{"key": "{}"}})", base64("any")));
    const JsonResult read = read_json(answer);
    ASSERT_EQ(read.problem, "") << answer;
    const std::string now = read.value.at("header").at("revision");
    EXPECT_THAT(ask("/v3/kv/compaction", fmt::format(R"({{"revision": "{}", "physical": true}})", now)), HasSubstr("header"));
  }
  // The one whose address is named first.
  void signal_first(int signal) const { ::kill(pids_[0], signal); }

 private:
  void start(std::vector<std::string> command) {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    const std::string log = directory_.path() + "/log";
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(out, STDERR_FILENO);
      ::execvp(words[0], words.data());
      ::_exit(127);
    }
    pids_.push_back(pid);
  }
  static bool answers(const std::string& address) {
    try {
      const std::string question = fmt::format(R"({{"key": "{}"}})", base64("any"));
      return http::post_json(*http::parse_endpoint(address, ""), "/v3/kv/range", question, seconds(5)).status == 200;
    } catch (const http::ConnectionError&) {
      return false;
    }
  }

  const TemporaryDirectory directory_{"three-etcds"};
  std::string address_;
  std::vector<pid_t> pids_;
};

// The group goes on, hears of a process that is lost, and of no other loss.
void bears_the_loss_of_a_member(int signal) {
  const ThreeMembers three;
  loses_a_process("three", SIGKILL, three.address(), {}, {}, [&](Members& members) {
    three.signal_first(signal);
    members.put("after", "it");
    EXPECT_EQ(members.get("after", seconds(60)), "it");
  });
}
TEST(Members, BearAKilledMemberOfTheCoordinator) { bears_the_loss_of_a_member(SIGKILL); }
TEST(Members, BearASilentMemberOfTheCoordinator) { bears_the_loss_of_a_member(SIGSTOP); }

// An etcd that compacts its history by itself has not what the watch began with when that moves to another member.
TEST(Members, ALossIsHeardOfAfterTheHistoryIsGone) {
  const ThreeMembers three;
  loses_a_process("compacted", SIGKILL, three.address(), {}, {}, [&](Members& members) {
    for (const char* key : {"one", "two", "three"}) members.put(key, "");
    three.compact();
    three.signal_first(SIGKILL);
    EXPECT_EQ(members.get("three", seconds(60)), "");
  });
}

// The first that comes up answers nothing until it has others, which is no failure of this process.
TEST(Members, WaitWhereMostOfTheCoordinatorsMembersAreNotThere) {
  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(silent, 100), 0);
  ::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &length);
  const std::string members = fmt::format("127.0.0.1:{},127.0.0.1:1", ntohs(address.sin_port));
  try {
    join_by_etcd({0, 2, members, "few"}, nobody_is_lost, {.meeting = seconds(0)});
    ADD_FAILURE() << "joined";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kPreempted);
  }
  ::close(silent);
}

TEST(Members, MeetWhereTheFirstMemberOfTheCoordinatorIsNotThere) {
  const auto alone = join_by_etcd({0, 1, "127.0.0.1:1," + etcd().address(), "first absent"}, nobody_is_lost);
  alone->put("key", "value");
  EXPECT_EQ(alone->get("key", seconds(60)), "value");
  alone->leave();
}

// The first that fails is the cause.
TEST(Members, AFailureIsToldWithItsCode) {
  etcd();  // ends with the thread that makes it
  News news;
  std::unique_ptr<Members> first, second;
  std::thread other([&] {
    second = join_by_etcd(place("failed", 1, 2), [](const std::string&, Exit) {});
    second->get("ready", seconds(60));
    second->fail(Exit::kPreempted);  // another start may mend it
    second->fail(Exit::kDiverged);
    second->fail(Exit::kData);
  });
  first = join_by_etcd(place("failed", 0, 2), news.taker());
  first->put("ready", "");
  other.join();
  EXPECT_EQ(news.wait(), "5 process 1 failed with exit code 5; its log says why");
  first->leave();
}

TEST(Members, WhoFailedBeforeItCameIsNotWaitedFor) {
  const auto joins = [](const std::string& run) {
    try {
      join_by_etcd(place(run, 0, 2), nobody_is_lost, {.meeting = seconds(1)});
      ADD_FAILURE() << "joined";
      return Exit::kDone;
    } catch (const Error& error) {
      if (error.code() == Exit::kUsage) {
        EXPECT_EQ(error.message(), "process 1 failed with exit code 2; its log says why");
      }
      return error.code();
    }
  };
  tell_failure(place("early", 1, 2), Exit::kUsage);
  EXPECT_EQ(joins("early"), Exit::kUsage);
  tell_failure(place("lost", 1, 2), Exit::kPreempted);
  EXPECT_EQ(joins("lost"), Exit::kPreempted);
  tell_failure({1, 2, "127.0.0.1:1", "nowhere"}, Exit::kUsage);
}

TEST(Members, AProcessThatWasStartedTwiceSaysNothingOfTheFirst) {
  etcd();  // ends with the thread that makes it
  News news;
  std::unique_ptr<Members> first, second;
  std::thread other([&] { second = join_by_etcd(place("second", 1, 2), [](const std::string&, Exit) {}); });
  first = join_by_etcd(place("second", 0, 2), news.taker());
  other.join();
  tell_failure(place("second", 1, 2), Exit::kUsage);
  second.reset();
  EXPECT_EQ(news.wait(), "75 process 1 is gone");
  first->leave();
}

TEST(Members, WithAKeyNobodyElseIsTakenIn) {
  const std::string key = new_run_key();
  const LocalEtcd keyed("127.0.0.1", key);
  loses_a_process("keyed", SIGKILL, keyed.address(), key);
  EXPECT_FALSE(has_members(keyed.address(), {}, "keyed"));
  const auto refused = [&](const std::string& with) -> std::string {
    try {
      join_by_etcd({0, 2, keyed.address(), "keyed", with}, nobody_is_lost);
      return "taken in";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kDevice);
      return error.what();
    }
  };
  EXPECT_THAT(refused({}), AllOf(HasSubstr("the coordinator: " + keyed.address()), HasSubstr("--coordinator-key")));
  EXPECT_THAT(refused(new_run_key()),
              AllOf(HasSubstr("certificate verify failed"), HasSubstr("with the certificate of this key")));
}

TEST(Members, TheKeyOfAnEtcdIsForThisUserAlone) {
  const LocalEtcd keyed("127.0.0.1", new_run_key());
  std::ifstream words(fmt::format("/proc/{}/cmdline", keyed.pid()));
  std::string word;
  while (std::getline(words, word, '\0') && word != "--key-file") continue;
  std::getline(words, word, '\0');
  struct stat file {};
  ASSERT_EQ(::stat(word.c_str(), &file), 0) << word;
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

// For longer than a request may take (5 s), and less than what the others' patience is.
TEST(Members, WhoWaitsBearsACoordinatorThatStands) {
  const LocalEtcd own;
  const MembersOptions options{.patience = seconds(60)};
  const auto join = [&](int64_t process) { return join_by_etcd({process, 2, own.address(), "run"}, nobody_is_lost, options); };
  std::unique_ptr<Members> first;
  std::thread waits([&] { EXPECT_NO_THROW(first = join(0)); });
  const auto waiting = [&] {  // it has put its name into the list of those who have come
    const std::string question = fmt::format(R"({{"key": "{}"}})", base64("tessera/run/met/00000000"));
    const http::Answer answer =
        http::post_json(*http::parse_endpoint(own.address(), "2379"), "/v3/kv/range", question, seconds(5));
    return answer.body.find("kvs") != std::string::npos;
  };
  while (!waiting()) std::this_thread::sleep_for(milliseconds(10));
  ::kill(own.pid(), SIGSTOP);
  std::this_thread::sleep_for(seconds(7));
  ::kill(own.pid(), SIGCONT);
  const auto second = join(1);
  waits.join();
  if (first) first->leave();
  second->leave();
}

TEST(Members, TheCoordinatorsEndIsNews) {
  auto own = std::make_unique<LocalEtcd>();
  News news;
  std::vector<std::unique_ptr<Members>> both(2);
  std::thread other([&] {
    both[1] = join_by_etcd({1, 2, own->address(), "run"}, [](const std::string&, Exit) {}, {.patience = seconds(3)});
  });
  both[0] = join_by_etcd({0, 2, own->address(), "run"}, news.taker(), {.patience = seconds(3)});
  other.join();
  own.reset();
  try {
    both[0]->barrier("after", seconds(1));
    ADD_FAILURE() << "passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kPreempted);
  }
  EXPECT_THAT(news.wait(), HasSubstr("75 the coordinator is gone"));
}

TEST(LocalEtcd, IsStartedAgainWhereItDied) {
  LocalEtcd own;
  const pid_t first = own.pid();
  own.revive();
  EXPECT_EQ(own.pid(), first);
  EXPECT_TRUE(own.runs());
  ::kill(first, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(first), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(own.runs());
  own.revive();
  EXPECT_TRUE(own.runs());
  EXPECT_NE(own.pid(), first);
  EXPECT_NO_THROW(join_by_etcd({0, 1, own.address(), "run"}, nobody_is_lost, {.meeting = seconds(1)}));
}

TEST(Members, AnIdIsTakenOnce) {
  in_each("twice", 2, [&](Members& members) {
    if (members.process_id() == 1) return (void)members.get("tried", seconds(60));
    try {
      join_by_etcd(place("twice", 0, 2), nobody_is_lost, {.patience = seconds(2)});
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      EXPECT_THAT(error.message(), HasSubstr("process 0 of run `twice` is there already: process "));
    }
    members.put("tried", "");
  });
}

TEST(Members, ACoordinatorThatIsNotThere) {
  try {
    join_by_etcd({0, 2, "127.0.0.1:1", "run"}, nobody_is_lost, {.meeting = seconds(0)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kPreempted);
    EXPECT_THAT(error.message(), HasSubstr("the coordinator: 127.0.0.1:1 cannot be reached: Connection refused"));
  }
  for (const std::string address : {"not an address", "127.0.0.1:1,", ",127.0.0.1:1", "127.0.0.1:1,not an address"}) {
    try {
      join_by_etcd({0, 2, address, "run"}, nobody_is_lost, {.meeting = seconds(0)});
      ADD_FAILURE() << address;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage) << address;
    }
  }
}

}  // namespace
}  // namespace tessera::group
