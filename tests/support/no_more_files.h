#pragma once
// The limit of open files (`ulimit -n`), reached.

#include <sys/resource.h>
#include <unistd.h>

namespace tessera::testing {

// While it lives, this process can open no further file. Not under sanitizers: UBSan opens a pipe to find out whether memory
// can be read, and without one it takes every object for a bad one.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(STDIN_FILENO);
    ::close(next);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(next);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

}  // namespace tessera::testing
