#pragma once
// Threads that work beside a run: they serve its page, and write what it tells its sinks.

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/system/file_calls.h"
#include "base/system/spans.h"

namespace tessera {

// For the thread that calls it: threads that train come first at processors. `nice` is the system's: from 0, as they have it, to 19.
// Where the system refuses, the thread keeps the priority that it has.
inline void lower_priority(int nice) { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice); }

// What a thread leaves to others: all but SIGPROF, which samples its time (base/system/cpu_samples.h), and the signals of its own
// faults, which end the process without a word where they are blocked.
inline sigset_t signals_of_other_threads() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int own : {SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&signals, own);
  return signals;
}

// For the thread that calls it: other threads handle signals and come first at processors, and nobody waits for its files.
// Profiles name it.
inline void become_background_thread() {
  constexpr int kNice = 10;
  const sigset_t others = signals_of_other_threads();
  pthread_sigmask(SIG_BLOCK, &others, nullptr);
  lower_priority(kNice);
  leave_out_file_calls();
  name_thread("live page");
  current_work = {"live page", "monitoring"};
}

}  // namespace tessera
