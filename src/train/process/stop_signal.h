#pragma once
// SIGTERM, SIGHUP, SIGXCPU and Ctrl-C ask the run to finish its step, save and end; so does ask().

#include "base/error.h"

namespace tessera::train {

// While one lives, these signals end the process at once, since there is nothing to save yet and a disk may not answer; once
// they are held they only set a flag, and a second SIGINT ends the process with exit code 130. Others may be repeated at once
// by whoever forwards them, and mean more (repeated()) only where some time lies between. SIGHUP stays ignored where it
// was (nohup). The handlers that were there before come back with its end; where there was none, one more signal of each kind does
// nothing, since the run is saved and its command is about to end. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void hold();
  // From now on requested() is false until agree(): where several processes train together, all have to end after the same step.
  void wait_for_agreement();
  // All agreed that the run ends with `code`.
  void agree(Exit code);
  // What the signal that came asks for, whatever was agreed: kDone where none came.
  Exit wanted() const;
  // The same as Ctrl-C, from a thread of the program: somebody asked for it who is no terminal. A signal before it stays the
  // reason, and one that comes later becomes it.
  void ask();
  bool requested() const;
  // Whether a signal came a second or more after the first: somebody has waited, and does not want to wait longer. Those that
  // the system sends of itself while a limit of processor time is exceeded do not count.
  bool repeated() const;
  // The exit code that goes with the signal: kInterrupted for SIGINT and ask(), kPreempted for the others. kDone when there was
  // none.
  Exit exit_code() const;
  // Whether a signal came after the end of one that was held.
  static bool came_late();
  // "SIGTERM", "Ctrl-C", "a request", "another process"; empty when there was none.
  const char* name() const;
};

}  // namespace tessera::train
