#include "launch/local.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "group/local_etcd.h"

namespace tessera::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kForwarded[] = {SIGTERM, SIGHUP, SIGINT};
// When one has ended with a failure the others notice within their patience, and end.
constexpr std::chrono::seconds kOthersEnd{30};
constexpr std::chrono::seconds kLongestPause{60};

sigset_t waited_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : kForwarded) sigaddset(&set, number);
  return set;
}

// The signals that are waited for stay blocked meanwhile; those of before are back afterwards.
class BlockedSignals {
 public:
  BlockedSignals() {
    const sigset_t set = waited_signals();
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

// The lines that come from a pipe, with a prefix, until its other end is closed.
void show_lines(int from, const std::string& prefix) {
  std::string pending;
  char part[4096];
  for (ssize_t count = 0; (count = ::read(from, part, sizeof part)) > 0;) {
    pending.append(part, static_cast<size_t>(count));
    for (size_t end = 0; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      log_line(prefix + pending.substr(0, end));
    }
  }
  if (!pending.empty()) log_line(prefix + pending);
  ::close(from);
}

// Of `processes`, the share of the processors that this program may use; all of them where they are too few.
cpu_set_t processors_of(int64_t process, int64_t processes) {
  cpu_set_t all, own;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof all, &all);
  std::vector<int> numbers;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) numbers.push_back(cpu);
  }
  const auto count = static_cast<int64_t>(numbers.size());
  if (count < processes) return all;
  for (int64_t i = process * count / processes; i < (process + 1) * count / processes; ++i) {
    CPU_SET(numbers[static_cast<size_t>(i)], &own);
  }
  return own;
}

class Child {
 public:
  Child(const LocalOptions& options, int64_t process, const std::string& coordinator, const std::string& run,
        const sigset_t& signals)
      : process_(process) {
    std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe")};
    words.insert(words.end(), options.command.begin(), options.command.end());
    std::vector<std::string> settings;
    for (char** variable = environ; *variable; ++variable) settings.emplace_back(*variable);
    settings.push_back(fmt::format("TESSERA_NUM_PROCESSES={}", options.processes));
    settings.push_back(fmt::format("TESSERA_PROCESS_ID={}", process));
    settings.push_back("TESSERA_COORDINATOR_ADDRESS=" + coordinator);
    settings.push_back("TESSERA_RUN_ID=" + run);
    const std::vector<char*> arguments = pointers(words), environment = pointers(settings);
    const cpu_set_t processors = processors_of(process, options.processes);

    int pipe[2] = {-1, log_descriptor()};
    if (process > 0 && ::pipe2(pipe, O_CLOEXEC) != 0) throw device_error("the system gives no more pipes");
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() != parent) ::_exit(static_cast<int>(Exit::kPreempted));
      pthread_sigmask(SIG_SETMASK, &signals, nullptr);
      sched_setaffinity(0, sizeof processors, &processors);
      ::dup2(pipe[1], STDERR_FILENO);
      if (process > 0) ::dup2(pipe[1], STDOUT_FILENO);
      ::execve(arguments[0], arguments.data(), environment.data());
      ::_exit(127);
    }
    if (process > 0) ::close(pipe[1]);
    if (pid_ < 0) {
      if (process > 0) ::close(pipe[0]);
      throw device_error(fmt::format("the system starts no further process than {}", process));
    }
    if (process > 0) reader_ = std::thread(show_lines, pipe[0], fmt::format("[{}] ", process));
  }
  ~Child() {
    if (!status_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (reader_.joinable()) reader_.join();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int signal) const {
    if (!status_) ::kill(pid_, signal);
  }
  // Whether it has ended; never waits.
  bool ended() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_.has_value();
  }
  // Of one that has ended; nothing where a signal killed it.
  std::optional<Exit> exit() const {
    return WIFEXITED(*status_) ? std::optional(static_cast<Exit>(WEXITSTATUS(*status_))) : std::nullopt;
  }
  std::string end() const {
    return exit() ? fmt::format("process {} ended with exit code {}", process_, static_cast<int>(*exit()))
                  : fmt::format("process {} was killed ({})", process_, ::strsignal(WTERMSIG(*status_)));
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  }

  const int64_t process_;
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::thread reader_;
};

// All processes once, from start to end.
class Start {
 public:
  Start(const LocalOptions& options, const std::string& coordinator, const std::string& run, const BlockedSignals& signals) {
    for (int64_t process = 0; process < options.processes; ++process) {
      children_.push_back(std::make_unique<Child>(options, process, coordinator, run, signals.before()));
    }
  }

  // Waits for all of them. Whether a signal asked for the end.
  bool wait() {
    bool asked = false;
    std::optional<Clock::time_point> failed_at;
    while (!all_ended()) {
      if (!failed_at && first_failure()) failed_at = Clock::now();
      if (failed_at && Clock::now() - *failed_at > kOthersEnd) send(SIGKILL);
      siginfo_t info{};
      const sigset_t set = waited_signals();
      const timespec patience{1, 0};
      const int number = ::sigtimedwait(&set, &info, &patience);
      if (number <= 0 || number == SIGCHLD) continue;
      asked = true;
      // The terminal's Ctrl-C has reached all of them already, and a second one ends them without saving.
      if (info.si_code != SI_KERNEL) send(number);
    }
    return asked;
  }

  // The first, in the order of ends as they were noticed, that did not end well.
  const Child* first_failure() {
    for (const auto& child : children_) {
      if (!failure_ && child->ended() && child->exit() != Exit::kDone) failure_ = child.get();
    }
    return failure_;
  }
  // An exit code that another start would end with as well.
  std::optional<Exit> mistake() const {
    for (const auto& child : children_) {
      const std::optional<Exit> exit = child->exit();
      if (exit && *exit != Exit::kDone && *exit != Exit::kPreempted) return exit;
    }
    return std::nullopt;
  }
  Exit leaders_exit() const { return children_[0]->exit().value_or(Exit::kPreempted); }

 private:
  bool all_ended() {
    return std::ranges::count_if(children_, [](const auto& child) { return child->ended(); }) ==
           static_cast<ptrdiff_t>(children_.size());
  }
  void send(int signal) const {
    for (const auto& child : children_) child->send(signal);
  }

  std::vector<std::unique_ptr<Child>> children_;
  const Child* failure_ = nullptr;
};

// False when a signal came first.
bool pause(std::chrono::seconds time) {
  sigset_t set = waited_signals();
  sigdelset(&set, SIGCHLD);
  const timespec patience{time.count(), 0};
  return ::sigtimedwait(&set, nullptr, &patience) <= 0;
}

}  // namespace

Exit run_local(const LocalOptions& options) {
  std::optional<group::LocalEtcd> own;
  if (options.coordinator.empty()) own.emplace();
  const std::string coordinator = own ? own->address() : options.coordinator;
  const BlockedSignals signals;
  for (int64_t restart = 0;; ++restart) {
    Start start(options, coordinator, fmt::format("launch-{}-{}", ::getpid(), restart), signals);
    const bool asked = start.wait();
    const Child* failure = start.first_failure();
    if (!failure) return Exit::kDone;
    if (asked) return start.leaders_exit();
    if (const auto mistake = start.mistake()) return *mistake;
    if (restart == options.restarts) {
      log_error(fmt::format("{}, and the run was started again {} times already", failure->end(), restart));
      return Exit::kPreempted;
    }
    const std::chrono::seconds later =
        std::min(kLongestPause, std::chrono::seconds(int64_t{1} << std::min<int64_t>(restart, 6)));
    log_line(fmt::format("{}; all {} start again in {} s, from the last checkpoint (restart {} of {})", failure->end(),
                         options.processes, later.count(), restart + 1, options.restarts));
    if (!pause(later)) return Exit::kPreempted;
  }
}

}  // namespace tessera::launch
