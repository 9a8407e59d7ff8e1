#pragma once
// Threads that work beside a run: they serve its page, write what it tells its sinks, and keep what it holds in a bucket or a group.

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
// Profiles and the system (top -H) have it as `name`, and its time as that of `part`; both stay in memory until the program ends.
inline void become_background_thread(const char* name, const char* part = "monitoring") {
  constexpr int kNice = 10;
  const sigset_t others = signals_of_other_threads();
  pthread_sigmask(SIG_BLOCK, &others, nullptr);
  lower_priority(kNice);
  leave_out_file_calls();
  name_thread(name);
  current_work = {name, part};
}

}  // namespace tessera
