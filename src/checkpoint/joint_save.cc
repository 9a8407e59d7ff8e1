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

}  // namespace

JointSave::JointSave(store::FileSystem& files, store::Directory& directory, std::string temporary, const Writers& writers)
    : files_(files), directory_(directory), temporary_(std::move(temporary)), writers_(writers) {}

std::string JointSave::part_name(int64_t index) const {
  return fmt::format("part-{:05}-of-{:05}.json", index + 1, writers_.count);
}

void JointSave::await_directory() {
  wait_until("process 1 has not begun", [&] { return is_there(temporary_); });
}

void JointSave::hand_in(const Commit& part) {
  handed_in_ = part;
  store::write_atomic(files_, part_path(writers_.index), std::string_view(commit_text(part)));
}

Commit JointSave::await_parts() {
  Commit all;
  for (int64_t index = 0; index < writers_.count; ++index) {
    const std::string path = part_path(index);
    wait_until(fmt::format("process {} has not ended writing", index + 1), [&] { return is_there(path); });
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
  const std::string mine = part_path(writers_.index);
  wait_until("process 1 has not committed", [&] { return !is_there(mine); });
  check_marker();
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

void JointSave::wait_until(std::string_view awaited, const std::function<bool()>& reached) const {
  std::string seen = contents();
  auto changed = Clock::now();
  for (auto sleep = kFirstSleep; !reached(); sleep = std::min(2 * sleep, kLastSleep)) {
    check_marker();
    if (writers_.alone && *writers_.alone) throw data_error(fmt::format("{}, and the other processes have ended", awaited));
    std::this_thread::sleep_for(sleep);
    std::string now = contents();
    if (now != seen) {
      seen = std::move(now);
      changed = Clock::now();
    } else if (Clock::now() - changed > writers_.patience) {
      throw data_error(fmt::format("{}, and nothing has changed in `{}` for {} s", awaited, temporary_,
                                   std::chrono::duration_cast<std::chrono::seconds>(writers_.patience).count()));
    }
  }
}

void JointSave::check_marker() const {
  if (is_there(marker())) throw data_error(store::read_small_file(files_, marker()));
}

// Names and sizes: what grows while others write.
std::string JointSave::contents() const {
  std::string text;
  if (!is_there(temporary_)) return text;
  try {
    for (const store::FileInfo& entry : files_.list(temporary_)) text += fmt::format("{} {}\n", entry.name, entry.size);
  } catch (const store::IoError&) {
    // It has just been renamed or removed.
  }
  return text;
}

// What one process has told is what the others fail by, in whatever way: the directory is gone then.
std::string JointSave::give_up(const std::string& why) {
  try {
    if (is_there(marker())) return store::read_small_file(files_, marker());
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
