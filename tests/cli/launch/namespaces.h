#pragma once
// Several hosts on this machine, for tests of runs over a network.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tessera::cli {

// Hosts with addresses of their own and no way out: network namespaces on a bridge, gone with this object. host counts from 0.
class Namespaces {
 public:
  explicit Namespaces(int count) : count_(count) {
    made_ = ip("link add {0}b type bridge") && ip("addr add 198.18.{1}.254/24 dev {0}b") && ip("link set {0}b up");
    for (int i = 0; made_ && i < count; ++i) {
      made_ = ip("netns add {0}{2}", i) && ip("link add {0}v{2} type veth peer name eth0 netns {0}{2}", i) &&
              ip("link set {0}v{2} master {0}b up", i) && ip("-n {0}{2} addr add 198.18.{1}.{2}/24 dev eth0", i) &&
              ip("-n {0}{2} link set eth0 up", i) && ip("-n {0}{2} link set lo up", i);
    }
  }
  ~Namespaces() {
    for (int i = 0; i < count_; ++i) {
      end_processes(i);
      ip("link delete {0}v{2}", i);
      ip("netns delete {0}{2}", i);
    }
    ip("link delete {0}b");
  }
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  bool made() const { return made_; }
  // Address host + 1 of its network is in the namespace prefix() + (host + 1).
  const std::string& prefix() const { return prefix_; }
  std::string name(int host) const { return fmt::format("{}{}", prefix_, host + 1); }
  std::string address(int host) const { return fmt::format("198.18.{}.{}", net_, host + 1); }
  // Its power is cut, as the others see it.
  void cut(int host) {
    ip("-n {0}{2} link set eth0 down", host);
    end_processes(host);
  }
  // And is back, with no process.
  void mend(int host) { ip("-n {0}{2} link set eth0 up", host); }

 private:
  bool ip(const std::string& words, int host = 0) const {
    const std::string command = fmt::format(fmt::runtime("ip " + words), prefix_, net_, host + 1);
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  void end_processes(int host) const {
    std::system(fmt::format("ip netns pids {} 2>/dev/null | xargs -r kill -9 2>/dev/null", name(host)).c_str());
  }

  const std::string prefix_ = fmt::format("ts{}", ::getpid());
  const int count_, net_ = ::getpid() % 250;
  bool made_ = false;
};

}  // namespace tessera::cli
