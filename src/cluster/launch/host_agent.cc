#include "cluster/launch/host_agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/text/json.h"
#include "cluster/group/local_etcd.h"
#include "cluster/group/members.h"
#include "cluster/launch/processes/child.h"

namespace tessera::launch {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The lines of stdin, and how long there were none.
class LauncherLink {
 public:
  // Waits for a line, at most so long; nothing where none came.
  std::optional<std::string> line(std::chrono::milliseconds patience) {
    if (auto whole = take_line()) return whole;
    pollfd stdin_poll{STDIN_FILENO, POLLIN, 0};
    if (gone_) {
      ::poll(nullptr, 0, static_cast<int>(patience.count()));
    } else if (::poll(&stdin_poll, 1, static_cast<int>(patience.count())) > 0) {
      char part[4096];
      const ssize_t count = ::read(STDIN_FILENO, part, sizeof part);
      if (count <= 0) gone_ = true;
      if (count > 0) pending_.append(part, static_cast<size_t>(count)), heard_ = Clock::now();
    }
    return take_line();
  }
  bool gone() const { return gone_ || Clock::now() - heard_ > kSilence; }

 private:
  std::optional<std::string> take_line() {
    const size_t end = pending_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = pending_.substr(0, end);
    pending_.erase(0, end + 1);
    return line;
  }

  std::string pending_;
  bool gone_ = false;
  Clock::time_point heard_ = Clock::now();
};

// Lines to stdout. A connection that takes no more may not hold the process: what it doesn't take is left out.
class Output {
 public:
  void say(const std::string& line) {
    const std::lock_guard lock(mutex_);
    const std::string text = (cut_ ? "\n" : "") + line + "\n";
    for (size_t done = 0; done < text.size();) {
      pollfd out{STDOUT_FILENO, POLLOUT, 0};
      if (::poll(&out, 1, stuck_ ? 0 : 10'000) <= 0 || (out.revents & (POLLERR | POLLHUP))) {
        stuck_ = true;
        cut_ = cut_ || done > 0;
        return;
      }
      // More may wait although poll() finds room.
      const ssize_t wrote = ::write(STDOUT_FILENO, text.data() + done, std::min<size_t>(text.size() - done, PIPE_BUF));
      if (wrote < 0) return;
      done += static_cast<size_t>(wrote);
    }
    stuck_ = cut_ = false;
  }

 private:
  std::mutex mutex_;
  bool stuck_ = false;
  bool cut_ = false;  // the last line that it took
};

// The number of "signal 15"; 0: it is another line, or none.
int signal_of(const std::optional<std::string>& line) {
  constexpr std::string_view kWord = "signal ";
  int number = 0;
  if (line && line->starts_with(kWord)) std::from_chars(line->data() + kWord.size(), line->data() + line->size(), number);
  return number;
}

HostRequest read_request(LauncherLink& launcher) {
  std::optional<std::string> line;
  while (!line && !launcher.gone()) line = launcher.line(std::chrono::seconds(1));
  if (!line) throw usage_error("`tessera launch host` is started by tessera launch, which says what to do");
  const nlohmann::json json = parse_json(*line, "what the launch says");
  HostRequest request;
  request.etcd = json.value("etcd", "");
  request.key = json.value("key", "");
  request.run = json.value("run", "");
  request.directory = json.value("directory", "");
  request.lock = json.value("lock", "");
  for (const auto& [name, value] : json.at("environment").items()) request.environment.push_back({name, value});
  for (const auto& word : json.at("command")) request.command.push_back(word);
  return request;
}

// Held until this process ends.
void take_lock(const std::string& path, LauncherLink& launcher, Output& output) {
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) throw data_error(fmt::format("cannot write `{}`", path));
  bool said = false;
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (!said) output.say("waits for the end of a process that an earlier launch of this run left here");
    said = true;
    const int asked = signal_of(launcher.line(std::chrono::milliseconds(500)));
    if (asked == SIGINT) std::_Exit(static_cast<int>(Exit::kInterrupted));
    if (asked > 0 || launcher.gone()) std::_Exit(static_cast<int>(Exit::kPreempted));
  }
}

Exit run_etcd(const HostRequest& request, LauncherLink& launcher, Output& output) {
  group::LocalEtcd etcd(request.etcd, request.key);
  output.say("@etcd " + etcd.address());
  while (!launcher.gone()) {
    launcher.line(std::chrono::seconds(1));
    if (etcd.runs()) continue;
    output.say(fmt::format("the etcd at {} has ended, where the processes met: all end, and start again with another one",
                           etcd.address()));
    return Exit::kPreempted;
  }
  const auto until = Clock::now() + kGrace;
  while (Clock::now() < until && group::has_members(etcd.address(), request.key, request.run))
    launcher.line(std::chrono::seconds(1));
  return Exit::kDone;
}

fs::path own_program() { return fs::read_symlink("/proc/self/exe"); }

// Libraries and programs that were copied here come first, for what is started.
void prefer_copied_files() {
  const fs::path copied = own_program().parent_path().parent_path();
  const char* path = std::getenv("PATH");
  ::setenv("PATH", ((copied / "bin").string() + (path ? ":" + std::string(path) : "")).c_str(), 1);
  ::setenv("LD_LIBRARY_PATH", (copied / "lib").c_str(), 1);
}

Exit run_process(const HostRequest& request, LauncherLink& launcher, Output& output) {
  std::error_code error;
  fs::current_path(request.directory, error);
  if (error) throw data_error(fmt::format("cannot go to `{}`: {}", request.directory, error.message()));
  ChildOptions options;
  options.name = "process";
  options.command = {own_program()};
  options.command.insert(options.command.end(), request.command.begin(), request.command.end());
  options.environment = request.environment;
  options.own_group = true;
  options.on_line = [&output](const std::string& line) { output.say(line); };

  sigset_t asked;
  sigemptyset(&asked);
  for (const int number : {SIGTERM, SIGHUP, SIGINT}) sigaddset(&asked, number);
  pthread_sigmask(SIG_BLOCK, &asked, nullptr);
  Child child(std::move(options));
  std::optional<Clock::time_point> left_at;
  while (!child.ended()) {
    const int number = signal_of(launcher.line(std::chrono::milliseconds(100)));
    if (number > 0) child.send(number);
    const timespec now{};
    if (::sigtimedwait(&asked, nullptr, &now) > 0) child.send(SIGTERM);
    if (launcher.gone() && !left_at) left_at = Clock::now(), child.send(SIGTERM);
    if (left_at && Clock::now() - *left_at > kGrace) child.send(SIGKILL);
  }
  child.wait();
  return static_cast<Exit>(child.exit_code());
}

}  // namespace

std::string to_line(const HostRequest& request) {
  nlohmann::ordered_json json;
  json["etcd"] = request.etcd;
  json["key"] = request.key;
  json["run"] = request.run;
  json["directory"] = request.directory;
  json["lock"] = request.lock;
  json["environment"] = nlohmann::ordered_json::object();
  for (const Variable& variable : request.environment) json["environment"][variable.name] = variable.value;
  json["command"] = request.command;
  return json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Exit run_host_agent() {
  LauncherLink launcher;
  Output output;
  const HostRequest request = read_request(launcher);
  prefer_copied_files();
  if (!request.etcd.empty()) return run_etcd(request, launcher, output);
  if (!request.lock.empty()) take_lock(request.lock, launcher, output);
  return run_process(request, launcher, output);
}

}  // namespace tessera::launch
