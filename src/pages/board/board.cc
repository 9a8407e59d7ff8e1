#include "pages/board/board.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/system/background_thread.h"
#include "http/server.h"
#include "pages/board/access.h"
#include "pages/board/routes.h"

namespace tessera::board {
namespace {

constexpr int kPorts = 20;
constexpr std::chrono::milliseconds kTick{500};  // between two looks at runs that train
constexpr int kSlowTicks = 10;                   // between two looks at others, and for new ones
constexpr std::chrono::milliseconds kPatience{1000};

bool goes_on(const WatchedRun& run) {
  const std::string state = run.state();
  return state == "running" || state == "starting" || state == "not started";
}

}  // namespace

// Looks at the runs' files, on a thread of its own, and tells readers of news. A thread that a disk holds is left behind.
class Board::Watch {
 public:
  Watch(std::shared_ptr<Runs> runs, std::shared_ptr<Answers> answers, std::shared_ptr<http::Server> server)
      : server_(std::move(server)), shared_(std::make_shared<Shared>()) {
    shared_->runs = std::move(runs);
    shared_->answers = std::move(answers);
    try {
      std::thread([shared = shared_, readers = std::weak_ptr(server_)] { shared->work(readers); }).detach();
    } catch (const std::system_error& error) {
      throw data_error(fmt::format("the system has no thread for the page: {}", error.code().message()));
    }
  }
  ~Watch() {
    std::unique_lock lock(shared_->mutex);
    shared_->ending = true;
    shared_->change.notify_all();
    shared_->change.wait_for(lock, kPatience, [this] { return shared_->ended; });
  }

 private:
  struct Shared {
    std::shared_ptr<Runs> runs;
    std::shared_ptr<Answers> answers;
    std::mutex mutex;
    std::condition_variable change;
    bool ending = false, ended = false;

    // Whether there is an end to it.
    bool pause() {
      std::unique_lock lock(mutex);
      return change.wait_for(lock, kTick, [this] { return ending; });
    }
    void work(const std::weak_ptr<http::Server>& readers) {
      become_background_thread("live page");
      for (int tick = 0; !pause(); ++tick) {
        const bool slow = tick % kSlowTicks == 0;
        bool news = slow && runs->scan();
        for (const auto& run : runs->all()) {
          if (!slow && !goes_on(*run)) continue;
          const WatchedRun::Change changed = run->refresh();
          news = news || changed.metrics || changed.state;
        }
        answers->looked();
        if (!news) continue;
        if (const auto server = readers.lock()) server->send_event("change", "{}");
      }
      const std::lock_guard lock(mutex);
      ended = true;
      change.notify_all();
    }
  };

  std::shared_ptr<http::Server> server_;
  std::shared_ptr<Shared> shared_;
};

Board::Board(const BoardOptions& options) : address_(options.address), token_(board_token()) {
  auto runs = std::make_shared<Runs>(options.paths, options.expected);
  runs->scan();
  for (const std::string& problem : runs->problems()) log_warning(problem);
  for (const auto& run : runs->all()) run->refresh();
  const auto answers = std::make_shared<Answers>(runs, Access(token_));
  http::ServerOptions server;
  server.address = address_.host;
  server.port = address_.port;
  server.ports = address_.port == 0 ? 1 : kPorts;
  auto serving = std::make_shared<http::Server>(
      server, [answers](const http::Request& request) { return answers->answer(request); },
      [answers](const http::Request& request) { return answers->at_hand(request); });
  address_.port = serving->port();
  watch_ = std::make_unique<Watch>(std::move(runs), answers, std::move(serving));
}

Board::~Board() = default;

std::string Board::url() const { return fmt::format("{}?token={}", address_.url(), token_); }

}  // namespace tessera::board
