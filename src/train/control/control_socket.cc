#include "train/control/control_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/system/file_calls.h"
#include "base/text/json.h"
#include "store/file.h"
#include "store/local/file_kind.h"
#include "train/control/unix_socket.h"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr size_t kMaxClients = 32;
constexpr auto kClientPatience = std::chrono::seconds(5);  // with a client that neither asks nor reads
constexpr auto kRest = std::chrono::seconds(1);            // after the system gave no descriptor for a client

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }
std::string refusal(const std::string& why) { return line_of({{"ok", false}, {"error", why}}); }

// Paths as they are in the workdir.
std::string answer_of(const ProfileOutcome& outcome) {
  if (!outcome.failure.empty()) return refusal(outcome.failure);
  const auto inside = [place = profile::profiles_directory("")](const std::string& path) {
    return path.substr(path.rfind(place));
  };
  const profile::ProfileFiles& files = outcome.files;
  return line_of({{"ok", true},
                  {"directory", inside(files.directory)},
                  {"xplane", inside(files.xplane)},
                  {"trace", inside(files.trace)},
                  {"summary", inside(files.summary)},
                  {"table", files.table}});
}

double seconds_of(const Json& request) {
  const auto seconds = request.find("seconds");
  const bool number = seconds != request.end() && seconds->is_number();
  const double value = number ? seconds->get<double>() : 0;
  if (!(value > 0 && value <= kMaxProfileSeconds)) {
    throw data_error(fmt::format("needs `seconds`, more than 0 and at most {:.0f}", kMaxProfileSeconds));
  }
  return value;
}

}  // namespace

class ControlSocket::Server {
 public:
  Server(const std::string& workdir, RunControl& control);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  // Answers on their way from whoever knows them to the thread that sends them. It may outlive the socket.
  class Answers {
   public:
    Answers() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    void put(int64_t client, std::string line) {
      {
        const std::lock_guard lock(mutex_);
        lines_.emplace_back(client, std::move(line));
      }
      wake();
    }
    void wake() { eventfd_write(wake_.get(), 1); }
    std::vector<std::pair<int64_t, std::string>> take() {
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
      const std::lock_guard lock(mutex_);
      return std::exchange(lines_, {});
    }
    const Descriptor& descriptor() const { return wake_; }

   private:
    Descriptor wake_;
    std::mutex mutex_;
    std::vector<std::pair<int64_t, std::string>> lines_;
  };

  struct Client {
    int64_t id;
    Descriptor socket;
    Clock::time_point since;  // that it is waited for
    std::string in, out;
    bool asked = false, done = false;

    bool awaits_answer() const { return asked && out.empty(); }
    short events() const { return awaits_answer() ? short{0} : asked ? short{POLLOUT} : short{POLLIN}; }
  };

  void bind(const std::string& path);
  void run_guarded() noexcept;
  void run();
  int wait(std::vector<pollfd>& polled);
  void look_after(Client& client, short events);
  void accept_clients();
  bool make_room();
  void read_request(Client& client);
  void obey(Client& client, std::string_view line);
  void obey(int64_t client, const Json& request);
  void send_answers();
  static void send(Client& client);

  const std::string path_;
  RunControl& control_;
  Descriptor directory_, listener_;
  struct stat bound_ {};
  std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::atomic<bool> stopping_{false};
  // Of the thread.
  std::list<Client> clients_;  // the oldest first
  int64_t next_id_ = 0;
  Clock::time_point accept_at_{};
  std::thread thread_;
};

ControlSocket::Server::Server(const std::string& workdir, RunControl& control)
    : path_(store::join_path(workdir, kControlSocket)), control_(control) {
  const FileCall call("making", path_);
  directory_ = Descriptor(::open(workdir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_) throw store::IoError(errno, "open", workdir);
  bind(path_);
  thread_ = std::thread([this] { run_guarded(); });
}

ControlSocket::Server::~Server() {
  stopping_ = true;
  answers_->wake();
  thread_.join();
  const FileCall call("removing", path_);
  struct stat there;
  const bool own = fstatat(directory_.get(), kControlSocket, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                   there.st_dev == bound_.st_dev && there.st_ino == bound_.st_ino;
  if (own) unlinkat(directory_.get(), kControlSocket, 0);
}

void ControlSocket::Server::bind(const std::string& path) {
  listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_ || !answers_->descriptor()) throw store::IoError(errno, "create", path);
  struct stat there;
  if (fstatat(directory_.get(), kControlSocket, &there, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISSOCK(there.st_mode))
      throw data_error(fmt::format("`{}` is {}, not a socket", path, store::file_kind(there.st_mode)));
    unlinkat(directory_.get(), kControlSocket, 0);
  }
  fchmod(listener_.get(), 0600);  // before there is a file, which takes its mode from here
  int number = bind_to(listener_, socket_address(directory_, kControlSocket));
  if (number == 0 && fstatat(directory_.get(), kControlSocket, &bound_, AT_SYMLINK_NOFOLLOW) != 0) number = errno;
  if (number == 0 && (bound_.st_mode & 0777 & ~0600u) != 0) number = EPERM;  // a file system that knows no modes
  if (number == 0 && ::listen(listener_.get(), kMaxClients) != 0) number = errno;
  if (number != 0) throw store::IoError(number, "create", path);
}

// Who is connected then sees the end of the connection.
void ControlSocket::Server::run_guarded() noexcept {
  try {
    run();
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception& error) {
    log_warning(fmt::format("nothing can be asked of this run any more: {}", error.what()));
    clients_.clear();
    listener_ = Descriptor();
  }
}

void ControlSocket::Server::run() {
  std::vector<pollfd> polled;
  for (;;) {
    // The destructor sets stopping_ and then writes to the eventfd. So the eventfd is read first (send_answers), then stopping_.
    send_answers();
    if (stopping_) return send_answers();  // those that came between the two
    if (wait(polled) <= 0) polled.clear();
    size_t i = 2;
    for (Client& client : clients_) look_after(client, i < polled.size() ? polled[i++].revents : short{0});
    clients_.remove_if([](const Client& client) { return client.done; });
    if (polled.size() > 1 && polled[1].revents != 0) accept_clients();
  }
}

// For something to do, or a client that takes too long.
int ControlSocket::Server::wait(std::vector<pollfd>& polled) {
  const Clock::time_point now = Clock::now();
  const bool accepting = now >= accept_at_;
  std::optional<Clock::time_point> until;
  if (!accepting) until = accept_at_;
  polled = {{answers_->descriptor().get(), POLLIN, 0}, {accepting ? listener_.get() : -1, POLLIN, 0}};
  for (const Client& client : clients_) {
    polled.push_back({client.socket.get(), client.events(), 0});
    if (!client.awaits_answer()) until = std::min(until.value_or(Clock::time_point::max()), client.since + kClientPatience);
  }
  const auto left = until ? std::chrono::ceil<std::chrono::milliseconds>(*until - now).count() : -1;
  return ::poll(polled.data(), polled.size(), until ? static_cast<int>(std::max<int64_t>(0, left)) : -1);
}

void ControlSocket::Server::look_after(Client& client, short events) {
  if (events & POLLIN) read_request(client);
  if (events & POLLOUT) send(client);
  if (!client.asked && (events & POLLIN)) return;
  if (events & (POLLHUP | POLLERR | POLLNVAL)) client.done = true;
  if (!client.awaits_answer() && Clock::now() >= client.since + kClientPatience) client.done = true;
}

void ControlSocket::Server::accept_clients() {
  for (;;) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) accept_at_ = Clock::now() + kRest;
      return;
    }
    Client client{next_id_++, std::move(socket), Clock::now(), {}, {}};
    const uid_t user = peer_user(client.socket);
    if (user != ::geteuid() && user != 0) {
      client.out = refusal("this run belongs to another user");
    } else if (!make_room()) {
      client.out = refusal("too many requests wait for this run");
    }
    client.asked = !client.out.empty();
    clients_.push_back(std::move(client));
    // Who has asked already is no silent client.
    clients_.back().asked ? send(clients_.back()) : read_request(clients_.back());
  }
}

// The oldest that asked nothing yet goes. False where all wait for answers.
bool ControlSocket::Server::make_room() {
  if (clients_.size() < kMaxClients) return true;
  const auto silent = std::ranges::find_if(clients_, [](const Client& client) { return !client.awaits_answer(); });
  if (silent == clients_.end()) return false;
  clients_.erase(silent);
  return true;
}

void ControlSocket::Server::read_request(Client& client) {
  std::array<char, kMaxRequestBytes> part;
  const ssize_t n = ::recv(client.socket.get(), part.data(), part.size(), 0);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n < 0 || (n == 0 && client.in.empty())) {
    client.done = true;
    return;
  }
  client.in.append(part.data(), static_cast<size_t>(n));
  const size_t end = n == 0 ? client.in.size() : client.in.find('\n');
  if (end != std::string::npos && end <= kMaxRequestBytes) {
    obey(client, std::string_view(client.in).substr(0, end));
  } else if (client.in.size() > kMaxRequestBytes) {
    client.asked = true;
    client.out = refusal(fmt::format("a request is one line of at most {} bytes", kMaxRequestBytes));
    send(client);
  }
}

void ControlSocket::Server::obey(Client& client, std::string_view line) {
  client.asked = true;
  try {
    obey(client.id, parse_ordered_json(line, "request", {.bytes = kMaxRequestBytes, .values = 64}));
  } catch (const Error& error) {
    client.out = refusal("the request " + error.message());
    send(client);
  }
}

void ControlSocket::Server::obey(int64_t client, const Json& request) {
  const auto what = request.is_object() ? request.find("do") : request.end();
  if (!request.is_object() || what == request.end() || !what->is_string()) throw data_error("names nothing to `do`");
  const bool profile = *what == "profile";
  if (request.size() > (profile ? 2 : 1)) throw data_error("has keys that are not known");
  if (*what == "stop") {
    control_.stop();
    answers_->put(client, line_of({{"ok", true}}));
  } else if (*what == "checkpoint") {
    control_.save([answers = answers_, client](const SaveOutcome& saved) {
      const bool ok = saved.failure.empty();
      answers->put(client, ok ? line_of({{"ok", true}, {"step", saved.step}, {"path", saved.path}}) : refusal(saved.failure));
    });
  } else if (profile) {
    control_.profile(seconds_of(request),
                     [answers = answers_, client](const ProfileOutcome& outcome) { answers->put(client, answer_of(outcome)); });
  } else {
    throw data_error(fmt::format("wants `{}`, and a run knows checkpoint, profile and stop", what->get<std::string>()));
  }
}

void ControlSocket::Server::send_answers() {
  for (auto& [id, line] : answers_->take()) {
    const auto client = std::ranges::find(clients_, id, &Client::id);
    if (client == clients_.end()) continue;  // it went away
    client->out = std::move(line);
    client->since = Clock::now();
    send(*client);
  }
}

// As much as the other end takes.
void ControlSocket::Server::send(Client& client) {
  while (!client.out.empty()) {
    const ssize_t n = ::send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) break;
    client.out.erase(0, static_cast<size_t>(n));
  }
  client.done = true;
}

ControlSocket::ControlSocket(const std::string& workdir, RunControl& control) {
  const auto warn = [](std::string_view why) {
    log_warning(fmt::format("nothing can be asked of this run while it trains: {}", why));
  };
  try {
    server_ = std::make_unique<Server>(workdir, control);
  } catch (const Error& error) {
    warn(error.message());
  } catch (const std::system_error& error) {
    warn(error.what());
  }
}

ControlSocket::~ControlSocket() = default;

}  // namespace tessera::train
