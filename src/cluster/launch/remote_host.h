#pragma once
// A host that commands reach: how files come there and how a process is started there.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch/host_agent.h"
#include "cluster/launch/host_files.h"
#include "cluster/launch/processes/child.h"

namespace tessera::launch {

struct RemoteHost {
  std::string name;                // as messages and the prefixes of lines call it
  std::vector<std::string> shell;  // words that run a command there; the command is put behind the last: {"ssh", …, "host", ""}
};

// What is known of a host that was reached.
struct Reached {
  std::string address;  // its own, as this machine sees it: brackets around an IPv6 address; 127.0.0.1 where it doesn't say
  std::string files;    // the directory that holds the files of the launch
  std::string problem;  // why it can't be used, as a sentence without full stop; empty: none
  std::string help;
};

// Connects, looks for `directory`, and copies those files that the host has not from an earlier launch. They lie in
// ~/.cache/tessera/launch there, by their SHA-256, and a month unused. What goes wrong is said in `problem`. Once
// `abandoned` is set no more is copied.
Reached reach(const RemoteHost& host, const std::vector<HashedFile>& files, const std::string& directory,
              const std::atomic<bool>& abandoned);

// Whether a host answers and has `directory`: ends with 0 then. It says nothing, and Ctrl-C does not reach it.
std::unique_ptr<Child> start_look(const RemoteHost& host, const std::string& directory);

// `tessera launch host` on a host, with its request. send() passes signals on.
class RemoteChild final : public Child {
 public:
  RemoteChild(const RemoteHost& host, const Reached& reached, const HostRequest& request,
              std::function<void(const std::string&)> on_line);
  void send(int signal) override;
  void tick() override;
  std::string end() const override;

 private:
  bool killed_ = false;
};

}  // namespace tessera::launch
