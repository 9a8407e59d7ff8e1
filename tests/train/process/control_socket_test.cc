// What can be asked of a run through its socket, by clients of every kind.

#include "train/control/control_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <future>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "store/temp_dir.h"
#include "train/control/unix_socket.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

// A run without a loop: what is asked of it waits for loop().
class Socket : public ::testing::Test {
 protected:
  void SetUp() override { make_run(dir_.path()); }
  static void make_run(const std::string& path) { testing::spill(path + "/recipe.toml", "seed = 0\n"); }

  // What the loop does when it sees that a save is wanted.
  void loop(const SaveOutcome& outcome) {
    while (!control_.save_wanted()) std::this_thread::yield();
    for (const RunControl::Saved& saved : control_.take()) saved(outcome);
  }
  std::future<Json> ask(const Json& request) {
    return std::async(std::launch::async, [this, request] { return ask_run(dir_.path(), request); });
  }
  Descriptor connect() const {
    const Descriptor directory(::open(dir_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect_to(socket, socket_address(directory, kControlSocket)), 0);
    return socket;
  }
  // The answer to what is sent as it is; empty where the connection ends without one.
  static std::string converse(const Descriptor& socket, std::string_view text, bool half_close = false) {
    if (!text.empty()) {
      EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }
    if (half_close) ::shutdown(socket.get(), SHUT_WR);
    std::string answer;
    std::array<char, 1024> part;
    while (!answer.ends_with('\n')) {
      const ssize_t n = ::recv(socket.get(), part.data(), part.size(), 0);
      if (n <= 0) break;
      answer.append(part.data(), static_cast<size_t>(n));
    }
    return answer;
  }
  std::string failure(const Json& request, Exit code) {
    try {
      ask_run(dir_.path(), request);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "no error";
  }

  testing::TempDir dir_;
  StopSignal stop_;
  RunControl control_{stop_};
};

TEST_F(Socket, IsThereAsLongAsTheRun) {
  EXPECT_FALSE(is_training(dir_.path()));
  {
    const ControlSocket socket(dir_.path(), control_);
    EXPECT_TRUE(is_training(dir_.path()));
  }
  EXPECT_FALSE(is_training(dir_.path()));
  EXPECT_FALSE(is_training(dir_ / "none"));
}

TEST_F(Socket, IsTheUsersAloneAndGoesWithTheRun) {
  const std::string path = dir_ / kControlSocket;
  {
    const mode_t before = ::umask(0);
    const ControlSocket socket(dir_.path(), control_);
    ::umask(before);
    struct stat status;
    ASSERT_EQ(::lstat(path.c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Socket, StopsAtOnce) {
  const ControlSocket socket(dir_.path(), control_);
  EXPECT_EQ(ask_run(dir_.path(), {{"do", "stop"}}), (Json{{"ok", true}}));
  EXPECT_TRUE(stop_.requested());
  EXPECT_STREQ(stop_.name(), "a request");
  EXPECT_EQ(stop_.exit_code(), Exit::kInterrupted);
}

TEST_F(Socket, ASaveIsAnsweredOnceItIsCommittedToAllWhoWait) {
  const ControlSocket socket(dir_.path(), control_);
  std::future<Json> first = ask({{"do", "checkpoint"}});
  while (!control_.save_wanted()) std::this_thread::yield();
  const std::vector<RunControl::Saved> waiting = control_.take();
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_FALSE(control_.save_wanted());
  std::future<Json> second = ask({{"do", "checkpoint"}});
  loop({7, "x/step_7", ""});
  EXPECT_EQ(second.get(), (Json{{"ok", true}, {"step", 7}, {"path", "x/step_7"}}));
  waiting[0]({6, "x/step_6", ""});
  EXPECT_EQ(first.get(), (Json{{"ok", true}, {"step", 6}, {"path", "x/step_6"}}));
}

TEST_F(Socket, AFailedSaveIsAnError) {
  const ControlSocket socket(dir_.path(), control_);
  std::thread run([this] { loop({6, "x", "the disk is full"}); });
  EXPECT_EQ(failure({{"do", "checkpoint"}}, Exit::kData), "the disk is full");
  run.join();
}

TEST_F(Socket, WhoWaitsIsToldOfTheEnd) {
  auto socket = std::make_unique<ControlSocket>(dir_.path(), control_);
  std::future<Json> asked = ask({{"do", "checkpoint"}});
  while (!control_.save_wanted()) std::this_thread::yield();
  control_.end("the run has ended");
  socket.reset();
  try {
    asked.get();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "the run has ended");
  }
  EXPECT_THAT(failure({{"do", "checkpoint"}}, Exit::kUsage), HasSubstr("is not training now (no control socket)"));
}

TEST_F(Socket, WhatADeadRunLeftIsReplacedAndAFileIsNot) {
  {
    const Descriptor directory(::open(dir_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const Descriptor stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind_to(stale, socket_address(directory, kControlSocket)), 0);
  }
  EXPECT_THAT(failure({{"do", "stop"}}, Exit::kUsage), HasSubstr("is not training now"));
  {
    const ControlSocket socket(dir_.path(), control_);
    EXPECT_EQ(ask_run(dir_.path(), {{"do", "stop"}}), (Json{{"ok", true}}));
  }
  testing::spill(dir_ / kControlSocket, "somebody's");
  ::testing::internal::CaptureStderr();
  { const ControlSocket socket(dir_.path(), control_); }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("nothing can be asked of this run while it trains"));
  EXPECT_EQ(testing::slurp(dir_ / kControlSocket), "somebody's");
  EXPECT_THAT(failure({{"do", "stop"}}, Exit::kUsage), HasSubstr("is not training now"));
}

TEST_F(Socket, AnothersSocketInItsPlaceStays) {
  auto socket = std::make_unique<ControlSocket>(dir_.path(), control_);
  fs::remove(dir_ / kControlSocket);
  testing::spill(dir_ / kControlSocket, "another's");
  socket.reset();
  EXPECT_TRUE(fs::exists(dir_ / kControlSocket));
}

TEST_F(Socket, LongPathsWork) {
  const std::string deep = dir_ / std::string(200, 'd') + "/" + std::string(200, 'e');
  fs::create_directories(deep);
  make_run(deep);
  const ControlSocket socket(deep, control_);
  EXPECT_EQ(ask_run(deep, {{"do", "stop"}}), (Json{{"ok", true}}));
}

TEST_F(Socket, GarbageIsAnsweredInWords) {
  const ControlSocket socket(dir_.path(), control_);
  const auto refused = [&](std::string_view text) {
    const Json answer = Json::parse(converse(connect(), text));
    EXPECT_EQ(answer["ok"], false);
    return answer["error"].get<std::string>();
  };
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n"), "the request cannot be read as JSON: line 1, column 1 is not JSON");
  EXPECT_EQ(refused("\n"), "the request cannot be read as JSON: line 1, column 1 is not JSON");
  EXPECT_EQ(refused("\xff\xfe\n").find("the request cannot be read as JSON"), 0u);
  EXPECT_EQ(refused("[\"stop\"]\n"), "the request names nothing to `do`");
  EXPECT_EQ(refused("{\"do\": 3}\n"), "the request names nothing to `do`");
  EXPECT_EQ(refused("{\"do\": \"stop\", \"now\": true}\n"), "the request has keys that are not known");
  EXPECT_EQ(refused("{\"do\": \"dance\"}\n"), "the request wants `dance`, and a run knows checkpoint, profile and stop");
  EXPECT_EQ(refused(std::string(100, '[') + "\n"), "the request cannot be read as JSON: it nests more than 64 levels deep");
  EXPECT_EQ(refused(std::string(kMaxRequestBytes + 1, ' ')), "a request is one line of at most 4096 bytes");
  EXPECT_FALSE(stop_.requested());
}

TEST_F(Socket, ARequestMayComeInPartsAndEndWithTheConnectionsHalf) {
  const ControlSocket socket(dir_.path(), control_);
  const Descriptor client = connect();
  ASSERT_EQ(::send(client.get(), "{\"do\": ", 7, 0), 7);
  EXPECT_EQ(converse(client, "\"stop\"}", /*half_close=*/true), "{\"ok\":true}\n");
}

TEST_F(Socket, AClientThatGoesAwayChangesNothing) {
  const ControlSocket socket(dir_.path(), control_);
  { const Descriptor silent = connect(); }
  {
    const Descriptor impatient = connect();
    ASSERT_GT(::send(impatient.get(), "{\"do\": \"checkpoint\"}\n", 21, 0), 0);
    while (!control_.save_wanted()) std::this_thread::yield();
  }
  loop({6, "x", ""});
  EXPECT_EQ(ask_run(dir_.path(), {{"do", "stop"}}), (Json{{"ok", true}}));
}

TEST_F(Socket, ManySilentClientsHoldNeitherOthersNorTheEnd) {
  auto socket = std::make_unique<ControlSocket>(dir_.path(), control_);
  std::vector<Descriptor> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect());
  EXPECT_EQ(ask_run(dir_.path(), {{"do", "stop"}}), (Json{{"ok", true}}));
  socket.reset();
  for (const Descriptor& client : silent) EXPECT_EQ(converse(client, ""), "");
}

TEST_F(Socket, MoreWaitThanARunKeepsInMind) {
  const ControlSocket socket(dir_.path(), control_);
  std::vector<Descriptor> waiting;
  for (int i = 0; i < 32; ++i) {
    waiting.push_back(connect());
    ASSERT_GT(::send(waiting.back().get(), "{\"do\": \"checkpoint\"}\n", 21, MSG_NOSIGNAL), 0);
  }
  std::vector<RunControl::Saved> asked;
  while (asked.size() < waiting.size()) std::ranges::move(control_.take(), std::back_inserter(asked));
  EXPECT_EQ(failure({{"do", "stop"}}, Exit::kData), "too many requests wait for this run");
  for (const RunControl::Saved& saved : asked) saved({6, "x", ""});
  for (const Descriptor& client : waiting) EXPECT_THAT(converse(client, ""), HasSubstr("\"ok\":true"));
  EXPECT_EQ(ask_run(dir_.path(), {{"do", "stop"}}), (Json{{"ok", true}}));
}

TEST_F(Socket, WithoutARunTheMessageSaysSo) {
  EXPECT_THAT(failure({{"do", "stop"}}, Exit::kUsage), HasSubstr("is not training now (no control socket)"));
  fs::remove(dir_ / "recipe.toml");
  EXPECT_THAT(failure({{"do", "stop"}}, Exit::kUsage), HasSubstr("is not the directory of a run"));
  EXPECT_THROW(ask_run(dir_ / "nowhere", {{"do", "stop"}}), Error);
}

TEST_F(Socket, ARunThatDoesNotAnswerIsNotWaitedForLongerThanAsked) {
  const Descriptor directory(::open(dir_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const Descriptor hung(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind_to(hung, socket_address(directory, kControlSocket)), 0);
  ASSERT_EQ(::listen(hung.get(), 1), 0);
  try {
    ask_run(dir_.path(), {{"do", "stop"}}, std::chrono::milliseconds(20));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not answer"));
  }
}

}  // namespace
}  // namespace tessera::train
