#include "cluster/launch/processes/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace tessera::launch {
namespace {

// Calls `on_line` for each line that comes from a pipe until its other end is closed.
void read_lines(int from, const std::function<void(const std::string&)>& on_line) {
  std::string pending;
  const auto tell = [&](size_t end) {
    std::string line = pending.substr(0, end);
    if (line.ends_with('\r')) line.pop_back();  // of ssh, which thinks of terminals
    on_line(line);
  };
  char part[4096];
  for (ssize_t count = 0; (count = ::read(from, part, sizeof part)) > 0;) {
    pending.append(part, static_cast<size_t>(count));
    for (size_t end = 0; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) tell(end);
  }
  if (!pending.empty()) tell(pending.size());
  ::close(from);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// This process's environment with others in the place of variables of the same name; of several `own` the last one counts.
std::vector<std::string> environment_with(const std::vector<Variable>& own) {
  std::vector<std::string> out;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable, name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const Variable& one : own) replaced = replaced || one.name == name;
    if (!replaced) out.emplace_back(text);
  }
  for (auto one = own.begin(); one != own.end(); ++one) {
    if (std::none_of(one + 1, own.end(), [&](const Variable& later) { return later.name == one->name; }))
      out.push_back(fmt::format("{}={}", one->name, one->value));
  }
  return out;
}

struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw device_error("the system gives no more pipes");
  }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int take(size_t end) { return std::exchange(ends[end], -1); }
  std::array<int, 2> ends{};
};

}  // namespace

std::optional<cpu_set_t> share_of_processors(int64_t index, int64_t count) {
  cpu_set_t all, own;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof all, &all);
  std::vector<int> numbers;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) numbers.push_back(cpu);
  }
  const auto there = static_cast<int64_t>(numbers.size());
  if (there < count) return std::nullopt;
  for (int64_t i = index * there / count; i < (index + 1) * there / count; ++i) {
    CPU_SET(numbers[static_cast<size_t>(i)], &own);
  }
  return own;
}

Child::Child(ChildOptions options) : options_(std::move(options)) { start(); }

void Child::start() {
  std::vector<std::string> words = options_.command, settings = environment_with(options_.environment);
  const std::vector<char*> arguments = pointers(words), environment = pointers(settings);
  std::optional<Pipe> in, out;
  if (options_.input) in.emplace();
  if (options_.on_line) out.emplace();
  const int messages = out ? out->ends[1] : log_descriptor();
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(static_cast<int>(Exit::kPreempted));
    if (options_.own_group) ::setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
    if (options_.processors) sched_setaffinity(0, sizeof *options_.processors, &*options_.processors);
    if (in) ::dup2(in->ends[0], STDIN_FILENO);
    if (out) ::dup2(messages, STDOUT_FILENO);
    ::dup2(messages, STDERR_FILENO);
    ::execvpe(arguments[0], arguments.data(), environment.data());
    ::_exit(127);
  }
  if (pid_ < 0) throw device_error(fmt::format("the system does not start {}: {}", options_.name, std::strerror(errno)));
  if (out) {
    const int from = out->take(0);
    out.reset();  // the only writer left is the child
    reader_ = std::thread([this, from] { read_lines(from, options_.on_line); });
  }
  if (in) {
    input_ = in->take(1);
    in.reset();
    write(*options_.input);
  }
}

Child::~Child() {
  close_input();
  if (pid_ > 0 && !status_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (reader_.joinable()) reader_.join();
}

bool Child::write(std::string_view text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(input_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

void Child::close_input() {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
}

void Child::send(int signal) {
  if (status_) return;
  ::kill(pid_, signal);
  if (signal != SIGKILL) ::kill(pid_, SIGCONT);  // one that is stopped takes no signal, and would not end
}

bool Child::ended() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_.has_value();
}

void Child::wait() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, 0) == pid_) status_ = status;
  if (reader_.joinable()) reader_.join();
}

std::optional<Exit> Child::exit() const {
  const auto exit = static_cast<Exit>(exit_code());
  return exit_code() < 128 || exit == Exit::kInterrupted ? std::optional(exit) : std::nullopt;
}

int Child::exit_code() const { return WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_); }

std::string Child::end() const {
  if (exit()) return fmt::format("{} ended with exit code {}", name(), exit_code());
  return fmt::format("{} was killed ({})", name(), ::strsignal(exit_code() - 128));
}

}  // namespace tessera::launch
