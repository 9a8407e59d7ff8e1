#pragma once
// One process that a launch started here.

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cluster/launch/processes/plan.h"

namespace tessera::launch {

// Of `count` processes that share this one's processors, those of the `index`-th; nothing where there are fewer than processes.
std::optional<cpu_set_t> share_of_processors(int64_t index, int64_t count);

struct ChildOptions {
  std::string name;                     // as messages call it: "process 1"
  std::vector<std::string> command;     // the first is a path, or a name in $PATH
  std::vector<Variable> environment;    // beside this process's
  std::optional<cpu_set_t> processors;  // those it may use; all when absent
  bool serves = false;                  // the others need it, and it ends when they have ended
  bool own_group = false;               // the terminal's Ctrl-C doesn't reach it
  std::optional<std::string> input;     // what it reads first; more comes by write(). This process's stdin when absent
  // What it says, line by line, from a thread of its own. Absent: it has this process's terminal, and stderr goes where messages
  // go (base/log.h).
  std::function<void(const std::string& line)> on_line;
};

// Runs until it ends or this object does, which kills it, and no longer than the thread that made it.
class Child {
 public:
  // A device Error where the system starts no further process.
  explicit Child(ChildOptions options);
  virtual ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const std::string& name() const { return options_.name; }
  bool serves() const { return options_.serves; }
  bool own_group() const { return options_.own_group; }
  virtual void send(int signal);
  // Called every second or so while it runs.
  virtual void tick() {}
  // More input. False where it reads no more.
  bool write(std::string_view text);
  void close_input();
  // Whether it has ended; never waits.
  bool ended();
  // Waits for its end and for all it said.
  void wait();
  // Of one that has ended; nothing where a signal killed it, or ended what it spoke for (exit codes from 128, as shells say it, but
  // for Ctrl-C's).
  std::optional<Exit> exit() const;
  // The same as a shell says it: 128 and the signal's number where one killed it.
  int exit_code() const;
  // The same as a sentence without full stop: "process 1 was killed (Killed)".
  virtual std::string end() const;

 private:
  void start();

  ChildOptions options_;
  pid_t pid_ = -1;
  int input_ = -1;
  std::optional<int> status_;
  std::thread reader_;
};

}  // namespace tessera::launch
