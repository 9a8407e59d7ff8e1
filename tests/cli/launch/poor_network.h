#pragma once
// Several hosts on this machine whose packets are late or lost, for tests of runs over a network (poor_network.py).

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_program.h"
#include "support/paths.h"

namespace tessera::cli {

// Gone with this object. host counts from 0.
class PoorNetwork {
 public:
  explicit PoorNetwork(int hosts) {
    int to_it[2], from_it[2];
    if (::pipe2(to_it, O_CLOEXEC) != 0 || ::pipe2(from_it, O_CLOEXEC) != 0) return;
    const std::string script = testing::source_path("tests/support/scripts/poor_network.py"), count = std::to_string(hosts);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(to_it[0], STDIN_FILENO);
      ::dup2(from_it[1], STDOUT_FILENO);
      ::execl("/usr/bin/python3", "python3", script.c_str(), prefix_.c_str(), net_.c_str(), count.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to_it[0]);
    ::close(from_it[1]);
    to_ = to_it[1];
    from_ = ::fdopen(from_it[0], "r");
    problem_ = line();
  }
  ~PoorNetwork() {
    if (to_ >= 0) ::close(to_);
    if (from_) std::fclose(from_);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }
  PoorNetwork(const PoorNetwork&) = delete;
  PoorNetwork& operator=(const PoorNetwork&) = delete;

  bool made() const { return problem_ == "ready"; }
  // Why there is none.
  const std::string& problem() const { return problem_; }
  // Of this machine, as the hosts reach it.
  std::string here() const { return net_ + ".254"; }
  // From now on, each packet: seconds until it comes, and the share of those that never do.
  void delay(double seconds, double loss) const { set({{"delay", seconds}, {"loss", loss}}); }
  // No packet comes to it or from it, and it lives.
  void cut(int host) const { set({{"cut", {host + 1}}}); }
  void mend() const { set(Json::object()); }
  // `tessera args…` on that host.
  std::unique_ptr<RunningProgram> start(int host, const std::vector<std::string>& args, const fs::path& directory) const {
    const int here = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    const int there = ::open(fmt::format("/run/netns/{}{}", prefix_, host + 1).c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(::setns(there, CLONE_NEWNET), 0);
    auto program = std::make_unique<RunningProgram>(args, directory);
    EXPECT_EQ(::setns(here, CLONE_NEWNET), 0);
    ::close(here);
    ::close(there);
    return program;
  }

 private:
  void set(const Json& wanted) const {
    const std::string text = wanted.dump() + "\n";
    EXPECT_EQ(::write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(line(), "done");
  }
  std::string line() const {
    std::string text;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) text += static_cast<char>(c);
    return text;
  }

  // Namespaces in namespaces.h have the other half of this range.
  const std::string prefix_ = fmt::format("tp{}", ::getpid()), net_ = fmt::format("198.19.{}", ::getpid() % 250);
  std::string problem_ = "no pipe";
  pid_t child_ = -1;
  int to_ = -1;
  std::FILE* from_ = nullptr;
};

}  // namespace tessera::cli
