#include "data/tools/prepare/unpack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "store/local/disk_room.h"

namespace tessera::data {
namespace {

constexpr int64_t kUsualImage = int64_t{100} << 10;  // to estimate how many files there will be
constexpr size_t kNamed = 5;                         // files in a message

// Waits until all that was written to the file system of `path` survives a power cut. One call for many files is what makes this
// affordable: a sync of each would take hours on a disk.
void sync_file_system(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // not on this machine's own disks
  const int failed = ::syncfs(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (failed != 0) throw store::IoError(failed, "write", path);
}

std::string sub_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) shown.push_back(one_line(names[i]));
  const std::string rest = names.size() > kNamed ? fmt::format(" and {} more", names.size() - kNamed) : "";
  return join(shown, ", ") + rest;
}

class Unpacking {
 public:
  Unpacking(const UnpackPlan& plan, const std::string& dir, const UnpackOptions& options)
      : plan_(plan),
        options_(options),
        files_(*options.files),
        dir_(dir),
        final_(store::join_path(dir, plan.folder)),
        work_(final_ + ".partial"),
        journal_path_(final_ + ".finished") {}

  UnpackedFolder run() {
    result_.folder = plan_.folder;
    const bool there = files_.info(final_).has_value();
    result_.kept = there;
    there ? check_what_is_there() : make();
    if (files_.info(journal_path_)) files_.remove_file(journal_path_);
    return std::move(result_);
  }

 private:
  void for_every_group(const std::function<void(const UnpackGroup&)>& body) {
    const auto count = std::ssize(plan_.groups);
    parallel_for(count, thread_count(options_.threads, count),
                 [&](int64_t i, int) { body(plan_.groups[static_cast<size_t>(i)]); });
  }

  void make() {
    files_.make_directories(dir_);
    make_folder("");
    read_journal();
    for_every_group([&](const UnpackGroup& group) {
      const std::vector<UnpackedFile> files = group.files();
      const bool finished = finished_.contains(group.name) && !options_.verify;
      make_directories(files);
      int64_t written = 0;
      for (const UnpackedFile& file : files) {
        const std::string path = store::join_path(work_, file.path);
        if (!(finished ? has_size(file, path) : has_bytes(file, path))) {
          write(file, path);
          ++written;
        }
        tell(file.member.size);
      }
      if (!finished || written > 0) {
        sync_file_system(work_);
        note_finished(group.name);
      }
      count(files, written);
    });
    expect_nothing_else(work_);
    if (!extra_.empty()) {
      throw data_error(fmt::format("`{}` holds files that the archives don't: {}", work_, some_of(extra_)), {},
                       "remove them, or the folder; the same command makes it again");
    }
    sync_file_system(work_);
    files_.rename(work_, final_);
    files_.sync_directory(store::parent_path(final_));
  }

  void check_what_is_there() {
    std::vector<std::string> differ;
    for_every_group([&](const UnpackGroup& group) {
      const std::vector<UnpackedFile> files = group.files();
      for (const UnpackedFile& file : files) {
        const std::string path = store::join_path(final_, file.path);
        if (!(options_.verify ? has_bytes(file, path) : has_size(file, path))) {
          const std::scoped_lock lock(mutex_);
          differ.push_back(file.path);
        }
        tell(file.member.size);
      }
      count(files, 0);
    });
    expect_nothing_else(final_);
    if (differ.empty() && extra_.empty()) return;
    std::ranges::sort(differ);
    std::vector<std::string> what;
    if (!differ.empty())
      what.push_back(fmt::format("{} are missing or others: {}", human_count(std::ssize(differ)), some_of(differ)));
    if (!extra_.empty())
      what.push_back(fmt::format("{} are none of theirs: {}", human_count(std::ssize(extra_)), some_of(extra_)));
    throw data_error(fmt::format("`{}` is not what the archives hold. Of its files {}", final_, join(what, "; ")), {},
                     "move the folder away, or remove it; the same command makes it again");
  }

  void make_directories(const std::vector<UnpackedFile>& files) {
    std::set<std::string> made, paths;
    for (const UnpackedFile& file : files) {
      if (!paths.insert(file.path).second)
        throw data_error(fmt::format("`{}` holds `{}` twice", file.archive->name(), one_line(file.path)));
      if (const std::string folder = sub_folder(file.path); made.insert(folder).second) make_folder(folder);
    }
  }

  // Below the folder that is unpacked; a link in its place leads to what the archives do not hold.
  void make_folder(const std::string& folder) {
    const std::string name = store::last_part(work_);
    store::make_directories_below(files_, dir_, folder.empty() ? name : store::join_path(name, folder));
  }

  bool has_size(const UnpackedFile& file, const std::string& path) const {
    const auto info = files_.info(path);
    return info && !info->directory && !info->symlink && info->size == file.member.size;
  }

  bool has_bytes(const UnpackedFile& file, const std::string& path) const {
    if (!has_size(file, path)) return false;
    const auto there = files_.open(path);
    bool same = true;
    int64_t at = 0;
    std::vector<std::byte> bytes;
    file.archive->read(file.member, [&](std::span<const std::byte> part) {
      bytes.resize(part.size());
      if (same) there->read(at, bytes);
      same = same && std::ranges::equal(bytes, part);
      at += std::ssize(part);
    });
    return same;
  }

  void write(const UnpackedFile& file, const std::string& path) const {
    const auto out = files_.create(path);
    file.archive->read(file.member, [&](std::span<const std::byte> part) { out->write(part); });
    out->close();
  }

  void read_journal() {
    if (!files_.info(journal_path_)) return;
    const std::string text = store::read_text(files_, journal_path_);
    const size_t whole = text.rfind('\n');
    for (const std::string& line : split(text.substr(0, whole == std::string::npos ? 0 : whole), '\n')) finished_.insert(line);
    // A line that a kill cut short would begin the next one.
    if (whole + 1 != text.size()) files_.truncate(journal_path_, static_cast<int64_t>(whole + 1));
  }

  void note_finished(const std::string& group) {
    const std::scoped_lock lock(mutex_);
    if (!journal_) journal_ = files_.append(journal_path_);
    journal_->write(store::as_bytes(group + "\n"));
    journal_->sync();
  }

  void count(const std::vector<UnpackedFile>& files, int64_t written) {
    const std::scoped_lock lock(mutex_);
    result_.written += written;
    for (const UnpackedFile& file : files) {
      ++result_.files;
      result_.bytes += file.member.size;
      ++result_.counts[sub_folder(file.path)];
      names_[sub_folder(file.path)].insert(store::last_part(file.path));
    }
  }

  // Files of the folder that are in no list become extra_; names that begin with a dot are the system's and the user's own.
  void expect_nothing_else(const std::string& root) {
    for (const store::FileInfo& entry : files_.list(root)) {
      if (entry.directory && !entry.name.starts_with('.') && !names_.contains(entry.name)) extra_.push_back(entry.name + "/");
    }
    for (const auto& [folder, names] : names_) {
      for (const store::FileInfo& entry : files_.list(store::join_path(root, folder))) {
        if (!entry.directory && !entry.name.starts_with('.') && !names.contains(entry.name))
          extra_.push_back(store::join_path(folder, entry.name));
      }
    }
    if (!names_.contains("")) {
      for (const store::FileInfo& entry : files_.list(root)) {
        if (!entry.directory && !entry.name.starts_with('.')) extra_.push_back(entry.name);
      }
    }
  }

  void tell(int64_t bytes) {
    const int64_t done = done_ += bytes;
    if (options_.progress) options_.progress(done);
  }

  const UnpackPlan& plan_;
  const UnpackOptions& options_;
  store::FileSystem& files_;
  const std::string dir_, final_, work_, journal_path_;
  UnpackedFolder result_;
  std::set<std::string> finished_;
  std::unique_ptr<store::WritableFile> journal_;
  std::map<std::string, std::set<std::string>> names_;  // that each sub-folder should have
  std::vector<std::string> extra_;
  std::mutex mutex_;
  std::atomic<int64_t> done_ = 0;
};

}  // namespace

int64_t UnpackPlan::bytes() const {
  return std::accumulate(groups.begin(), groups.end(), int64_t{0},
                         [](int64_t sum, const UnpackGroup& group) { return sum + group.bytes; });
}

UnpackedFolder unpack(const UnpackPlan& plan, const std::string& dir, const UnpackOptions& options) {
  return Unpacking(plan, dir, options).run();
}

int64_t bytes_to_write(const std::vector<UnpackPlan>& plans, const std::string& dir, store::FileSystem& files) {
  int64_t bytes = 0;
  for (const UnpackPlan& plan : plans) {
    const std::string path = store::join_path(dir, plan.folder), work = path + ".partial";
    if (files.info(path)) continue;
    const int64_t whole = plan.bytes(),
                  padded = whole + whole / kUsualImage * (store::kDiskBlock / 2);  // half a block is lost a file
    bytes += std::max<int64_t>(0, padded - (files.info(work) ? store::bytes_below(files, work) : 0));
  }
  return bytes;
}

}  // namespace tessera::data
