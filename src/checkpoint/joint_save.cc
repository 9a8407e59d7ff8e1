#include "checkpoint/joint_save.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/error.h"
#include "store/small_file.h"

namespace tessera::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

// How long it sleeps before it looks again: at first so long, then twice that, up to the last.
constexpr std::chrono::milliseconds kFirstSleep{1}, kLastSleep{128}, kLastSleepForWord{1024};

// With a sleep of kLastSleepForWord between them: longer than it takes until a coordinator that is gone is missed.
constexpr int kTriesToSay = 30;

// Of words: what each process says once. Its part has the name of the file on a disk.
constexpr const char* kBegunWord = "begun";
constexpr const char* kCommittedWord = "committed";
constexpr const char* kFailedWord = "failed";

// Names and sizes: what grows while others write.
std::string contents(const std::vector<store::FileInfo>& files) {
  std::string text;
  for (const store::FileInfo& file : files) text += fmt::format("{} {}\n", file.name, file.size);
  return text;
}

}  // namespace

JointSave::JointSave(store::FileSystem& files, store::Directory* directory, std::string temporary, const Writers& writers,
                     int64_t save)
    : files_(files), directory_(directory), temporary_(std::move(temporary)), writers_(writers), save_(save) {
  TESSERA_CHECK(directory_ || writers_.words);
}

std::string JointSave::part_name(int64_t index) const {
  return fmt::format("part-{:05}-of-{:05}.json", index + 1, writers_.count);
}

std::string JointSave::word(const std::string& name) const { return fmt::format("{}/{}", save_, name); }

void JointSave::begin(const std::string& prefix) { say(kBegunWord, prefix); }

std::string JointSave::await_directory() {
  if (writers_.words) return wait_for_word("process 1 has not begun", kBegunWord);
  wait_until("process 1 has not begun", [](const Seen& seen) { return seen.directory; });
  return {};
}

void JointSave::hand_in(const Commit& part) {
  handed_in_ = part;
  if (writers_.words) return say(part_name(writers_.index), commit_text(part));
  store::write_atomic(files_, part_path(writers_.index), std::string_view(commit_text(part)));
}

Commit JointSave::await_parts() {
  Commit all;
  for (int64_t index = 0; index < writers_.count; ++index) {
    const Commit part = parse_file_list(part_text(index), part_path(index));
    TESSERA_CHECK(index == 0 || (part.step == all.step && part.version == all.version), "parts of steps {} and {}", all.step,
                  part.step);
    all.step = part.step;
    all.version = part.version;
    all.files.insert(all.files.end(), part.files.begin(), part.files.end());
  }
  return all;
}

// Waits for it.
std::string JointSave::part_text(int64_t index) const {
  const std::string awaited = fmt::format("process {} has not ended writing", index + 1);
  if (writers_.words) return wait_for_word(awaited, part_name(index));
  wait_until(awaited, [name = part_name(index)](const Seen& seen) { return seen.has(name); });
  return store::read_small_file(files_, part_path(index));
}

// Waits for it. The directory goes when it gets its final name, and also when the first process gives up.
Commit JointSave::committed(const std::string& path) const {
  constexpr const char* kAwaited = "process 1 has not committed";
  if (writers_.words) return parse_commit(wait_for_word(kAwaited, kCommittedWord), path);
  wait_until(kAwaited, [mine = part_name(writers_.index)](const Seen& seen) { return !seen.has(mine); });
  if (const auto seen = look()) expect_going_on(*seen);
  return read_commit(files_, path);
}

// What is committed is this save if it has what this process wrote: a damaged checkpoint may have had the name before.
void JointSave::await_commit(const std::string& path) {
  const Commit all = committed(path);
  for (const CommittedFile& file : handed_in_.files) {
    if (std::find(all.files.begin(), all.files.end(), file) != all.files.end()) continue;
    throw data_error(fmt::format("process 1 committed `{}` without `{}`", path, file.name));
  }
}

void JointSave::end(const std::string& path, const Commit& all) noexcept {
  try {
    if (writers_.words) return say(kCommittedWord, commit_text(all));
  } catch (const InternalError&) {
    std::terminate();
  } catch (...) {
    return;  // the coordinator is gone, and so the run ends
  }
  for (int64_t index = 0; index < writers_.count; ++index) {
    try {
      files_.remove_file(store::join_path(path, part_name(index)));
    } catch (const InternalError&) {
      std::terminate();
    } catch (...) {
      // It is small, and no reader looks at it.
    }
  }
}

void JointSave::wait_until(std::string_view awaited, const std::function<bool(const Seen&)>& reached) const {
  std::string before;
  auto changed = Clock::now();
  for (auto sleep = kFirstSleep;; sleep = std::min(2 * sleep, kLastSleep)) {
    const std::optional<Seen> seen = look();
    if (seen && reached(*seen)) return;
    if (seen) expect_going_on(*seen);
    expect_company(awaited);
    std::string now = seen ? contents(seen->files) : before;
    if (now != before) {
      before = std::move(now);
      changed = Clock::now();
    } else if (Clock::now() - changed > writers_.patience) {
      throw data_error(fmt::format("{}, and nothing has changed in `{}` for {} s", awaited, temporary_,
                                   std::chrono::duration_cast<std::chrono::seconds>(writers_.patience).count()));
    }
    std::this_thread::sleep_for(sleep);
  }
}

void JointSave::expect_going_on(const Seen& seen) const {
  if (seen.failed) throw data_error(store::read_small_file(files_, marker()));
}

void JointSave::expect_company(std::string_view awaited) const {
  if (writers_.alone && *writers_.alone) throw data_error(fmt::format("{}, and the other processes have ended", awaited));
}

// A question that fails is asked again: where nobody answers any more, the run ends by that.
std::string JointSave::wait_for_word(std::string_view awaited, const std::string& name) const {
  const auto begun = Clock::now();
  for (auto sleep = kFirstSleep;; sleep = std::min(2 * sleep, kLastSleepForWord)) {
    std::optional<std::string> said, failed;
    try {
      said = writers_.words->find(word(name));
      if (!said) failed = writers_.words->find(word(kFailedWord));
    } catch (const Error&) {
      // Nobody has said it as far as is known.
    }
    if (said) return *std::move(said);
    if (failed) throw data_error(*failed);
    expect_company(awaited);
    if (Clock::now() - begun > writers_.patience) {
      throw data_error(
          fmt::format("{} within {} s", awaited, std::chrono::duration_cast<std::chrono::seconds>(writers_.patience).count()));
    }
    std::this_thread::sleep_for(sleep);
  }
}

// Others wait for it, so that it is tried more than once.
void JointSave::say(const std::string& name, const std::string& text) const {
  for (int tries = 1;; ++tries) {
    try {
      return writers_.words->put(word(name), text);
    } catch (const Error&) {
      if (tries == kTriesToSay || (writers_.alone && *writers_.alone)) throw;
    }
    std::this_thread::sleep_for(kLastSleepForWord);
  }
}

// Of words, as far as is known: who is not answered tells what it has to tell.
std::optional<std::string> JointSave::told_failure() const {
  if (writers_.words) {
    try {
      return writers_.words->find(word(kFailedWord));
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  return files_.info(marker()) ? std::optional(store::read_small_file(files_, marker())) : std::nullopt;
}

bool JointSave::Seen::has(const std::string& name) const {
  return std::ranges::any_of(files, [&](const store::FileInfo& file) { return file.name == name; });
}

// By lists alone. A client of NFS that asks for a name which is not there may remember for a minute that it is not; a list is
// asked of the server.
std::optional<JointSave::Seen> JointSave::look() const {
  Seen seen;
  const std::string name(store::last_part(temporary_)), failed(store::last_part(marker()));
  try {
    for (const store::FileInfo& entry : files_.list(store::parent_path(temporary_))) {
      if (entry.name == name) seen.directory = true;
      if (entry.name == failed) seen.failed = true;
    }
    if (seen.directory) seen.files = files_.list(temporary_);
  } catch (const store::IoError&) {
    return std::nullopt;
  }
  return seen;
}

// What one process has told is what the others fail by, in whatever way: the directory is gone then.
std::string JointSave::give_up(const std::string& why) {
  try {
    if (auto told = told_failure()) return *std::move(told);
    const std::string text = fmt::format("process {} of {}: {}", writers_.index + 1, writers_.count, why);
    writers_.words ? say(kFailedWord, text) : store::write_atomic(*directory_, store::last_part(marker()), text);
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception&) {
    // The others will find out by waiting.
  }
  return why;
}

}  // namespace tessera::checkpoint
