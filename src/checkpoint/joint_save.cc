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
constexpr std::chrono::milliseconds kFirstSleep{1}, kLastSleep{128};

// Names and sizes: what grows while others write.
std::string contents(const std::vector<store::FileInfo>& files) {
  std::string text;
  for (const store::FileInfo& file : files) text += fmt::format("{} {}\n", file.name, file.size);
  return text;
}

}  // namespace

JointSave::JointSave(store::FileSystem& files, store::Directory& directory, std::string temporary, const Writers& writers)
    : files_(files), directory_(directory), temporary_(std::move(temporary)), writers_(writers) {}

std::string JointSave::part_name(int64_t index) const {
  return fmt::format("part-{:05}-of-{:05}.json", index + 1, writers_.count);
}

void JointSave::await_directory() {
  wait_until("process 1 has not begun", [](const Seen& seen) { return seen.directory; });
}

void JointSave::hand_in(const Commit& part) {
  handed_in_ = part;
  store::write_atomic(files_, part_path(writers_.index), std::string_view(commit_text(part)));
}

Commit JointSave::await_parts() {
  Commit all;
  for (int64_t index = 0; index < writers_.count; ++index) {
    const std::string path = part_path(index);
    wait_until(fmt::format("process {} has not ended writing", index + 1),
               [name = part_name(index)](const Seen& seen) { return seen.has(name); });
    const Commit part = parse_file_list(store::read_small_file(files_, path), path);
    TESSERA_CHECK(index == 0 || (part.step == all.step && part.version == all.version), "parts of steps {} and {}", all.step,
                  part.step);
    all.step = part.step;
    all.version = part.version;
    all.files.insert(all.files.end(), part.files.begin(), part.files.end());
  }
  return all;
}

// The directory goes when it gets its final name, and also when the first process gives up. What is committed then is this
// save if it has what this process wrote: a damaged checkpoint may have had the name before.
void JointSave::await_commit(const std::string& path) {
  wait_until("process 1 has not committed", [mine = part_name(writers_.index)](const Seen& seen) { return !seen.has(mine); });
  if (const auto seen = look()) expect_going_on(*seen);
  const Commit all = read_commit(files_, path);
  for (const CommittedFile& file : handed_in_.files) {
    if (std::find(all.files.begin(), all.files.end(), file) != all.files.end()) continue;
    throw data_error(fmt::format("process 1 committed `{}` without `{}`", path, file.name));
  }
}

void JointSave::remove_parts(const std::string& path) noexcept {
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
    if (writers_.alone && *writers_.alone) throw data_error(fmt::format("{}, and the other processes have ended", awaited));
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
    if (files_.info(marker())) return store::read_small_file(files_, marker());
    store::write_atomic(directory_, store::last_part(marker()),
                        fmt::format("process {} of {}: {}", writers_.index + 1, writers_.count, why));
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception&) {
    // The others will find out by waiting.
  }
  return why;
}

}  // namespace tessera::checkpoint
