#pragma once
// Memory and threads that the system refuses to this process. Handlers of signals may call everything here: system calls and
// arithmetic alone, nothing is allocated.

#include <cstddef>
#include <string_view>

namespace tessera {

// Whether the system refuses so much more memory now (`ulimit -v`, `ulimit -d`, or the machine has no more).
bool memory_is_refused(size_t bytes);

// Whether memory is refused now, or this process has come so close to `ulimit -v` that it may have been: when a library trips
// over memory that was refused, other threads may have given theirs back.
bool memory_ran_out();

// Whether the system refuses another thread now (`ulimit -u`, pids.max of a container, kernel.threads-max). Starts a process
// that ends at once.
bool thread_is_refused();

// Where memory or threads ran out: writes an error that names the limit, and a help, to a descriptor; true. `last_words` is the
// end of what a library wrote before it ended the program: it may say that it got no thread.
bool tell_refused(int descriptor, std::string_view last_words);

}  // namespace tessera
