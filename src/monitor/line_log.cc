#include "monitor/line_log.h"

#include <cerrno>

#include "base/log.h"

namespace tessera::monitor {

LineLog::LineLog(std::string path, store::FileSystem& files) : path_(std::move(path)), files_(files) {
  const std::string directory = store::parent_path(path_);
  if (files_.info(directory)) directory_ = files_.open_directory(directory);
}

void LineLog::add(std::string_view line) {
  const std::lock_guard lock(mutex_);
  const bool was_failing = !pending_.empty();
  pending_.append(line);
  pending_ += '\n';
  try {
    notice_others();
    write_pending();
  } catch (const store::IoError& error) {
    file_.reset();
    if (!was_failing) log_warning(fmt::format("{}; the lines are kept in memory and tried again", error.message()));
  }
}

void LineLog::sync() {
  const std::lock_guard lock(mutex_);
  try {
    notice_others();
    write_pending();
    if (file_) file_->sync();
  } catch (const store::IoError&) {
    file_.reset();
    throw;
  }
}

void LineLog::filter(const std::function<bool(std::string_view)>& keep) {
  const std::lock_guard lock(mutex_);
  file_.reset();
  size_.reset();
  if (!files_.info(path_)) return;
  const std::string text = store::read_text(files_, path_);
  std::string kept;
  kept.reserve(text.size());
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    if (end == std::string::npos) break;
    const std::string_view line(text.data() + start, end - start);
    if (keep(line)) kept.append(text, start, end + 1 - start);
    start = end + 1;
  }
  if (kept != text) store::write_atomic(files_, path_, kept);
}

bool LineLog::failing() const {
  const std::lock_guard lock(mutex_);
  return !pending_.empty();
}

bool LineLog::disturbed() const {
  const std::lock_guard lock(mutex_);
  return disturbed_;
}

bool LineLog::empty() const {
  const std::lock_guard lock(mutex_);
  const auto info = files_.info(path_);
  return pending_.empty() && (!info || info->size == 0);
}

// A write that failed, or another process's that was cut off, may have left a part of its bytes: they are cut away first.
void LineLog::open() {
  expect_directory();
  const auto info = files_.info(path_);
  if (!info) {
    file_ = files_.create(path_);
    files_.sync_directory(store::parent_path(path_));
    size_ = 0;
    return;
  }
  if (info->symlink) throw store::IoError(ELOOP, "write", path_);  // it may lead to anybody's file
  if (!size_) {
    const std::string text = store::read_text(files_, path_);
    const auto last_end = text.rfind('\n');
    size_ = last_end == std::string::npos ? 0 : static_cast<int64_t>(last_end + 1);
  }
  if (*size_ < info->size) files_.truncate(path_, *size_);
  file_ = files_.append(path_);
}

// What is not flushed yet counts as not written: nothing waits in the file's own buffer between calls.
void LineLog::notice_others() {
  if (!file_) return;
  const store::FileInfo written = file_->info();
  const auto there = files_.info(path_);
  const char* what = !there                    ? "removed"
                     : there->id != written.id ? "replaced"
                     : written.size < *size_   ? "cut"
                     : written.size > *size_   ? "written to by another program"
                                               : nullptr;
  if (!what) return;
  disturbed_ = true;
  file_.reset();
  size_.reset();
  log_warning(fmt::format("`{}` was {} while the run goes on: lines before this may be lost or not of this run", path_, what));
}

// Nothing is made in a directory that took the place of the one before.
void LineLog::expect_directory() {
  const std::string path = store::parent_path(path_);
  if (!directory_) {
    directory_ = files_.open_directory(path);
  } else if (const auto there = files_.info(path); !there || there->id != directory_->id()) {
    throw store::IoError(ENOENT, "write", path_);
  }
}

void LineLog::write_pending() {
  if (pending_.empty()) return;
  if (!file_) open();
  file_->write(store::as_bytes(pending_));
  file_->flush();
  *size_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
}

}  // namespace tessera::monitor
