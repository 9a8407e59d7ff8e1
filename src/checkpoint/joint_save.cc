#include "checkpoint/joint_save.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

// How long it sleeps before it looks again: at first so long, then twice that, up to the last.
constexpr std::chrono::milliseconds kFirstSleep{1}, kLastSleep{1024};

// With a sleep of kLastSleep between them: longer than it takes until a coordinator that is gone is missed.
constexpr int kTriesToSay = 30;

// What each process says once, or the first alone.
constexpr const char* kStateWord = "state.json";
constexpr const char* kOrderWord = "commit";
constexpr const char* kCommittedWord = "committed";
constexpr const char* kKeptWord = "kept";
constexpr const char* kFailedWord = "failed";

}  // namespace

std::vector<int64_t> Writers::other_directories() const {
  std::vector<int64_t> others;
  for (size_t i = 1; i < directory_of.size(); ++i) {
    if (directory_of[i] == static_cast<int64_t>(i)) others.push_back(directory_of[i]);
  }
  return others;
}

JointSave::JointSave(const Writers& writers, int64_t save) : writers_(writers), save_(save) { TESSERA_CHECK(writers_.words); }

std::string JointSave::begun_word(int64_t index) { return fmt::format("begun-{}", index); }

std::string JointSave::committed_word(int64_t index) { return fmt::format("{}-{}", kCommittedWord, index); }

std::string JointSave::part_word(int64_t index) const { return fmt::format("part-{}-of-{}", index + 1, writers_.count); }

std::string JointSave::word(const std::string& name) const { return fmt::format("{}/{}", save_, name); }

std::string JointSave::await_first() { return wait_for_word("process 1 has not begun", begun_word(0)); }

void JointSave::await_directory() {
  const int64_t first = writers_.directory();
  wait_for_word(fmt::format("process {} has not begun", first + 1), begun_word(first));
}

void JointSave::hand_in(const Commit& part) {
  handed_in_ = part;
  say(part_word(writers_.index), commit_text(part));
}

Commit JointSave::await_parts() {
  Commit all;
  for (int64_t index = 0; index < writers_.count; ++index) {
    const std::string name = part_word(index);
    const std::string text = wait_for_word(fmt::format("process {} has not ended writing", index + 1), name);
    const Commit part = parse_file_list(text, name);
    TESSERA_CHECK(index == 0 || (part.step == all.step && part.version == all.version), "parts of steps {} and {}", all.step,
                  part.step);
    all.step = part.step;
    all.version = part.version;
    all.files.insert(all.files.end(), part.files.begin(), part.files.end());
  }
  return all;
}

void JointSave::commit_elsewhere(const Commit& all, const std::string& state_json) {
  const std::vector<int64_t> others = writers_.other_directories();
  if (others.empty()) return;
  say(kStateWord, state_json);
  say(kOrderWord, commit_text(all));
  for (const int64_t other : others) {
    wait_for_word(fmt::format("process {} has not committed on its host", other + 1), committed_word(other));
  }
}

JointSave::ToCommit JointSave::await_order(const std::string& path) {
  constexpr const char* kAwaited = "process 1 has not committed";
  ToCommit order{parse_commit(wait_for_word(kAwaited, kOrderWord), path), {}};
  order.state_json = wait_for_word(kAwaited, kStateWord);
  return order;
}

// What is committed is this save if it has what this process wrote: a damaged checkpoint may have had the name before.
void JointSave::await_commit(const std::string& path) {
  const Commit all = parse_commit(wait_for_word("process 1 has not committed", kCommittedWord), path);
  for (const CommittedFile& file : handed_in_.files) {
    if (std::find(all.files.begin(), all.files.end(), file) != all.files.end()) continue;
    throw data_error(fmt::format("process 1 committed `{}` without `{}`", path, file.name));
  }
}

void JointSave::end(const Commit& all) noexcept {
  try {
    say(kCommittedWord, commit_text(all));
  } catch (const InternalError&) {
    std::terminate();
  } catch (...) {
    // The coordinator is gone, and so the run ends.
  }
}

void JointSave::tell_kept(const std::optional<std::vector<int64_t>>& steps) {
  if (!writers_.other_directories().empty()) say(kKeptWord, steps ? nlohmann::json(*steps).dump() : "null");
}

std::optional<std::vector<int64_t>> JointSave::await_kept() {
  constexpr const char* kAwaited = "process 1 has not said which checkpoints stay";
  const nlohmann::json steps = parse_json(wait_for_word(kAwaited, kKeptWord), kKeptWord);
  return steps.is_null() ? std::nullopt : std::optional(steps.get<std::vector<int64_t>>());
}

void JointSave::expect_company(std::string_view awaited) const {
  if (writers_.alone && *writers_.alone) throw data_error(fmt::format("{}, and the other processes have ended", awaited));
}

// A question that fails is asked again: where nobody answers any more, the run ends by that.
std::string JointSave::wait_for_word(std::string_view awaited, const std::string& name) const {
  const auto begun = Clock::now();
  for (auto sleep = kFirstSleep;; sleep = std::min(2 * sleep, kLastSleep)) {
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
    std::this_thread::sleep_for(kLastSleep);
  }
}

// What one process has told is what the others fail by, in whatever way: its files are gone then.
std::string JointSave::give_up(const std::string& why) {
  try {
    if (auto told = writers_.words->find(word(kFailedWord))) return *std::move(told);
    say(kFailedWord, fmt::format("process {} of {}: {}", writers_.index + 1, writers_.count, why));
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception&) {
    // The others will find out by waiting.
  }
  return why;
}

}  // namespace tessera::checkpoint
