#pragma once
// Several processes that write one checkpoint together, as a pod's hosts do. They see the same directory and need no other way
// to talk. The first of them makes the temporary directory; each writes the files of its own groups there and hands in their
// list, as a file; the first waits for all lists, checks that the arrays are whole, and commits. Whoever fails says so in a
// file beside the directory, and nobody commits. docs/formats/checkpoint.md has the order of the steps.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/commit.h"
#include "store/file.h"

namespace tessera::checkpoint {

// This process among those that write together; all save the same steps in the same order.
struct Writers {
  int64_t index = 0;  // this process, of:
  int64_t count = 1;
  int64_t first_pid = 0;  // process id of the first one, which all are given; 0 where there is only one
  // A process that waits gives up when nothing of what the others do has shown for so long.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
  // Set once the others have ended: whoever waits for them gives up. Null: nobody tells.
  std::shared_ptr<const std::atomic<bool>> alone = nullptr;

  bool leads() const { return index == 0; }
  bool several() const { return count > 1; }
};

// One save's meeting of several writers. Operations throw store::IoError, and a data error that names the process when another
// one has failed or is not heard of.
class JointSave {
 public:
  // `temporary` is the directory that the save writes into, the same for all of them and of this save alone. `directory` is
  // where it lies, held open, and outlives this: should another directory have taken its path meanwhile, that one is left
  // alone.
  JointSave(store::FileSystem& files, store::Directory& directory, std::string temporary, const Writers& writers);

  // Of all but the first: until the first one has made the directory.
  void await_directory();
  // Says that the files of this process are written.
  void hand_in(const Commit& part);
  // Of the first: what all handed in, the files in the order of the processes, once everyone has.
  Commit await_parts();
  // Of all but the first, after hand_in: until the directory has become the checkpoint `path`.
  void await_commit(const std::string& path);
  // Of the first: what was handed in is not needed any more. Never fails.
  void remove_parts(const std::string& path) noexcept;
  // Tells the others, unless one of them has told already. Gives the reason that was told first. Never fails.
  std::string give_up(const std::string& why);

 private:
  // What shows of a save.
  struct Seen {
    bool directory = false;  // the temporary one
    bool failed = false;     // somebody has given up
    std::vector<store::FileInfo> files;

    bool has(const std::string& name) const;
  };

  std::string part_name(int64_t index) const;
  std::string part_path(int64_t index) const { return store::join_path(temporary_, part_name(index)); }
  std::string marker() const { return temporary_ + ".failed"; }
  // Until `reached`; throws when a process has given up or, with what is `awaited`, when nothing has changed in the directory
  // for too long.
  void wait_until(std::string_view awaited, const std::function<bool(const Seen&)>& reached) const;
  void expect_going_on(const Seen& seen) const;
  // Nothing where it can't be looked at now: it may just have been renamed or removed.
  std::optional<Seen> look() const;

  store::FileSystem& files_;
  store::Directory& directory_;
  const std::string temporary_;
  const Writers writers_;
  Commit handed_in_;
};

}  // namespace tessera::checkpoint
