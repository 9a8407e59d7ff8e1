#pragma once
// Threads that serve a page beside the work of a run.

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/spans.h"

namespace tessera {

// For the thread that calls it: other threads handle signals and come first at processors. It still takes SIGPROF, which samples
// its time (base/cpu_samples.h), and profiles name it. Where the system refuses a lower priority, the thread keeps the one that it has.
inline void become_background_thread() {
  constexpr int kNice = 10;
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  name_thread("live page");
  current_work = {"live page", "monitoring"};
}

}  // namespace tessera
