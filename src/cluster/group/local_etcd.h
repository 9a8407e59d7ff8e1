#pragma once
// An etcd of this program's own, for processes of one machine or one launch.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/system/temporary_directory.h"

namespace tessera::group {

// Runs Debian's `etcd` (etcd-server) on free ports, in a new directory that goes with it. It ends with this object, and with the
// thread that made it, so that one that is killed leaves nothing behind.
class LocalEtcd {
 public:
  // Listens on `host`: "127.0.0.1", or an address of this machine that the other hosts reach. With a key (cluster/group/run_key.h), only
  // who has it is answered. Returns once it answers. Throws a device Error where it is not installed or does not start, and an Error
  // with exit code 75 where another program has `port` for 20 s (0: any that is free).
  explicit LocalEtcd(const std::string& host = "127.0.0.1", std::string key = {}, uint16_t port = 0);
  ~LocalEtcd();
  LocalEtcd(const LocalEtcd&) = delete;
  LocalEtcd& operator=(const LocalEtcd&) = delete;

  // False once it died. From the thread that made it, as revive().
  bool runs();
  // Where it died, another one starts, at another address: who was there has to come again.
  void revive();

  const std::string& address() const { return address_; }  // "127.0.0.1:41234"
  pid_t pid() const { return pid_; }

 private:
  void start();
  void end();

  const TemporaryDirectory directory_{"tessera-etcd"};
  const std::string host_, key_;
  const uint16_t port_;
  std::string address_;
  pid_t pid_ = -1;
};

}  // namespace tessera::group
