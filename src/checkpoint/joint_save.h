#pragma once
// Several processes that write one checkpoint together, as a pod's hosts do: into a bucket, into a directory that all of them see,
// or each into a directory on its host's own disk. Each writes the files of its own groups, under their last names, and hands in
// their list; the first waits for all lists and commits. What they tell each other goes by SaveWords and not by files.
// docs/formats/checkpoint.md has the order of the steps.

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
  // A process that waits for another one gives up after so long.
  std::chrono::milliseconds patience = std::chrono::hours(2);
  // Set once the others have ended: whoever waits for them gives up. Null: nobody tells.
  std::shared_ptr<const std::atomic<bool>> alone = nullptr;
  // How several talk; null where there is one.
  std::shared_ptr<SaveWords> words = nullptr;
  // Of each process the first one that has the same directory. Empty: all have the directory of the first.
  std::vector<int64_t> directory_of = {};
  // Of the first in a bucket: throws where the run there is another program's by now. Asked before anything is removed. Null: no
  // other program writes there.
  std::function<void()> expect_own = nullptr;

  bool leads() const { return index == 0; }
  bool several() const { return count > 1; }
  // Commits in its directory, and removes what is not needed there.
  bool leads_directory() const { return directory() == index; }
  int64_t directory() const { return directory_of.empty() ? 0 : directory_of[static_cast<size_t>(index)]; }
  // The processes but the first that lead one: those of other hosts.
  std::vector<int64_t> other_directories() const;
};

// One save's meeting of several writers. Operations throw a data error that names the process when another one has failed or is
// not heard of.
class JointSave {
 public:
  // `save`: its number, by which all count alike.
  JointSave(const Writers& writers, int64_t save);

  // Of those that lead a directory: the files are written there now, with that prefix (commit.h).
  void begin(const std::string& prefix) { say(begun_word(writers_.index), prefix); }
  // Gives the prefix, once the first process has begun.
  std::string await_first();
  // Of those that don't lead their directory: until the one that does has begun.
  void await_directory();
  // Says that the files of this process are written.
  void hand_in(const Commit& part);
  // Of the first: what all handed in, the files in the order of the processes, once everyone has.
  Commit await_parts();
  // Of the first: tells those that lead other directories to commit this there; they have done so when it returns.
  void commit_elsewhere(const Commit& all, const std::string& state_json);
  // Of those others: what they are to commit. `path`, here and below, is for messages.
  struct ToCommit {
    Commit commit;
    std::string state_json;  // the text of the file
  };
  ToCommit await_order(const std::string& path);
  void committed_here() { say(committed_word(writers_.index), ""); }
  // Of all but the first, after hand_in: until the checkpoint is committed.
  void await_commit(const std::string& path);
  // Of the first: the checkpoint is committed, as `all`. Never fails.
  void end(const Commit& all) noexcept;
  // Of the first and of those that lead other directories, after the end: the steps of the checkpoints that stay; nothing: all.
  void tell_kept(const std::optional<std::vector<int64_t>>& steps);
  std::optional<std::vector<int64_t>> await_kept();
  // Tells the others, unless one of them has told already. Gives the reason that was told first. Never fails.
  std::string give_up(const std::string& why);

 private:
  static std::string begun_word(int64_t index);
  static std::string committed_word(int64_t index);
  std::string part_word(int64_t index) const;
  std::string word(const std::string& name) const;
  std::string wait_for_word(std::string_view awaited, const std::string& name) const;
  void say(const std::string& name, const std::string& text) const;
  void expect_company(std::string_view awaited) const;

  const Writers writers_;
  const int64_t save_;
  Commit handed_in_;
};

}  // namespace tessera::checkpoint
