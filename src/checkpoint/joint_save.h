#pragma once
// Several processes that write one checkpoint together, as a pod's hosts do. They see the same directory and need no other way
// to talk. The first of them makes the temporary directory; each writes the files of its own groups there and hands in their
// list, as a file; the first waits for all lists, checks that the arrays are whole, and commits. Whoever fails says so in a
// file beside the directory, and nobody commits. docs/formats/checkpoint.md has the order of the steps.
//
// A bucket has no renaming, and each look at it costs: there the files are written under their last names, COMMIT at the end,
// and the processes tell each other by SaveWords what they tell by files on a disk.

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

// Texts that the processes of a run leave for each other, each under a name. An Error where that fails. Called from the
// writer's thread.
class SaveWords {
 public:
  virtual ~SaveWords() = default;
  virtual void put(const std::string& name, const std::string& text) = 0;
  // Nothing where nobody has put it.
  virtual std::optional<std::string> find(const std::string& name) = 0;
};

// This process among those that write together; all save the same steps in the same order.
struct Writers {
  int64_t index = 0;  // this process, of:
  int64_t count = 1;
  int64_t first_pid = 0;  // process id of the first one, which all are given; 0 where there is only one
  // A process that waits gives up when nothing of what the others do has shown for so long; with `words`, when it has waited
  // for so long.
  std::chrono::milliseconds patience = std::chrono::minutes(10);
  // Set once the others have ended: whoever waits for them gives up. Null: nobody tells.
  std::shared_ptr<const std::atomic<bool>> alone = nullptr;
  // How several talk where the directory is in a bucket. Null: it is on a disk that all see.
  std::shared_ptr<SaveWords> words = nullptr;
  // Of the first in a bucket: throws where the run there is another program's by now. Asked before anything is removed. Null: no
  // other program writes there.
  std::function<void()> expect_own = nullptr;

  bool leads() const { return index == 0; }
  bool several() const { return count > 1; }
};

// One save's meeting of several writers. Operations throw store::IoError, and a data error that names the process when another
// one has failed or is not heard of.
class JointSave {
 public:
  // `temporary` is the directory that the save writes into, the same for all of them and, but in a bucket, of this save alone.
  // `save`: its number, by which all count alike. `directory` is where it lies, held open, and outlives this: should another
  // directory have taken its path meanwhile, that one is left alone. Null in a bucket.
  JointSave(store::FileSystem& files, store::Directory* directory, std::string temporary, const Writers& writers, int64_t save);

  // Of the first, in a bucket: the files are written now, with that prefix (commit.h).
  void begin(const std::string& prefix);
  // Of all but the first: until the first one has made the directory. Gives the prefix, which is empty on a disk.
  std::string await_directory();
  // Says that the files of this process are written.
  void hand_in(const Commit& part);
  // Of the first: what all handed in, the files in the order of the processes, once everyone has.
  Commit await_parts();
  // Of all but the first, after hand_in: until the directory has become the checkpoint `path`.
  void await_commit(const std::string& path);
  // Of the first: the checkpoint `path` is committed, as `all`, and what was handed in is not needed any more. Never fails.
  void end(const std::string& path, const Commit& all) noexcept;
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
  std::string word(const std::string& name) const;
  std::string part_path(int64_t index) const { return store::join_path(temporary_, part_name(index)); }
  std::string marker() const { return temporary_ + ".failed"; }
  // Until `reached`; throws when a process has given up or, with what is `awaited`, when nothing has changed in the directory
  // for too long.
  void wait_until(std::string_view awaited, const std::function<bool(const Seen&)>& reached) const;
  void expect_going_on(const Seen& seen) const;
  std::string wait_for_word(std::string_view awaited, const std::string& name) const;
  void say(const std::string& name, const std::string& text) const;
  void expect_company(std::string_view awaited) const;
  std::string part_text(int64_t index) const;
  Commit committed(const std::string& path) const;
  std::optional<std::string> told_failure() const;
  // Nothing where it can't be looked at now: it may just have been renamed or removed.
  std::optional<Seen> look() const;

  store::FileSystem& files_;
  store::Directory* const directory_;
  const std::string temporary_;
  const Writers writers_;
  const int64_t save_;
  Commit handed_in_;
};

}  // namespace tessera::checkpoint
