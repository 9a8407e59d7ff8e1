#pragma once
// Threads that serve a page beside the work of a run.

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tessera {

// For the thread that calls it: signals, but for those of samples of its time (base/cpu_samples.h), are for other threads, and processors for those with a run's work. Where the system refuses
// a lower priority, the thread keeps the one that it has.
inline void become_background_thread() {
  constexpr int kNice = 10;
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
}

}  // namespace tessera
