// folder(path): a class for each sub-folder.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/source_call.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLayout =
    "make one sub-folder for each class and put its images in it:\n"
    "  {0}/cat/one.jpg\n"
    "  {0}/dog/two.jpg";

std::string layout_help(const std::string& path) { return fmt::format(fmt::runtime(kLayout), path); }

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

// All paths in one string: a data set may have millions of files.
class PathList {
 public:
  void add(std::string_view path) {
    text_ += path;
    ends_.push_back(text_.size());
  }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

class Folder final : public Source {
 public:
  Folder(const std::string& path, std::string_view where);
  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  const std::vector<std::string>& class_names() const override { return classes_; }
  std::string id(int64_t index) const override { return std::string(paths_[static_cast<size_t>(index)]); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override;
  const std::string& name() const override { return root_; }
  void prefetch(int64_t index) const override;

 private:
  void list_classes(const std::string& where);
  void list_files(const std::string& where);

  std::string root_;
  std::vector<std::string> classes_;
  PathList paths_;  // relative to root_
  std::vector<int32_t> labels_;
};

Folder::Folder(const std::string& path, std::string_view where_view) : root_(path) {
  const std::string where(where_view);
  while (root_.size() > 1 && root_.ends_with('/')) root_.pop_back();
  std::error_code error;
  const fs::file_status status = fs::status(root_, error);
  if (!fs::exists(status)) {
    throw data_error(fmt::format("the folder `{}` does not exist", root_), where,
                     fmt::format("relative paths start from the working directory, {}", fs::current_path().string()));
  }
  if (!fs::is_directory(status))
    throw data_error(fmt::format("`{}` is a file, not a folder", root_), where, layout_help(root_));
  try {
    list_classes(where);
    list_files(where);
  } catch (const fs::filesystem_error& e) {
    throw data_error(fmt::format("cannot list `{}`: {}", e.path1().string(), e.code().message()), where);
  }
}

void Folder::list_classes(const std::string& where) {
  size_t loose = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(root_)) {
    if (is_hidden(entry.path())) continue;
    if (entry.is_directory()) {
      classes_.push_back(entry.path().filename().native());
    } else {
      ++loose;
    }
  }
  if (classes_.empty()) {
    const std::string found =
        loose == 0 ? "is empty" : fmt::format("has {} files but no sub-folders", human_count(static_cast<int64_t>(loose)));
    throw data_error(fmt::format("the folder `{}` {}, so there are no classes", root_, found), where, layout_help(root_));
  }
  if (loose > 0) log_note(fmt::format("{}: {} files beside the class folders are left out", root_, loose));
  std::sort(classes_.begin(), classes_.end());
}

void Folder::list_files(const std::string& where) {
  std::vector<std::string> empty;
  for (size_t label = 0; label < classes_.size(); ++label) {
    std::vector<std::string> found;
    const fs::path folder = fs::path(root_) / classes_[label];
    for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator(); ++it) {
      if (is_hidden(it->path())) {
        if (it->is_directory()) it.disable_recursion_pending();
      } else if (!it->is_directory()) {
        found.push_back(it->path().native().substr(root_.size() + 1));
      }
    }
    if (found.empty()) empty.push_back(classes_[label]);
    std::sort(found.begin(), found.end());
    for (const std::string& path : found) paths_.add(path);
    labels_.insert(labels_.end(), found.size(), static_cast<int32_t>(label));
  }
  if (paths_.size() == 0) throw data_error(fmt::format("the folder `{}` holds no images", root_), where, layout_help(root_));
  if (empty.empty()) return;
  const bool many = empty.size() > 1;
  throw data_error(fmt::format("the class folder{} `{}` in `{}` {} no images", many ? "s" : "", join(empty, "`, `"), root_,
                               many ? "hold" : "holds"),
                   where, "add images to it, or remove the folder if it is no class");
}

struct OpenFile {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  explicit OpenFile(const std::string& path) : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor;
};

std::string system_reason() { return std::generic_category().message(errno); }

void Folder::prefetch(int64_t index) const {
  const OpenFile file(fmt::format("{}/{}", root_, paths_[static_cast<size_t>(index)]));
  if (file.descriptor >= 0) ::posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_WILLNEED);
}

std::optional<std::string> Folder::read(int64_t index, Sample& sample) const {
  sample.label = labels_[static_cast<size_t>(index)];
  const std::string path = fmt::format("{}/{}", root_, paths_[static_cast<size_t>(index)]);
  const OpenFile file(path);
  struct stat info {};
  if (file.descriptor < 0 || ::fstat(file.descriptor, &info) != 0) return system_reason();
  if (!S_ISREG(info.st_mode)) return "not a regular file";
  Buffer& buffer = sample.memory;
  buffer.reset(static_cast<size_t>(info.st_size));
  for (size_t done = 0; done < buffer.size();) {
    const ssize_t got = ::read(file.descriptor, buffer.data() + done, buffer.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_reason();
    if (got == 0) return "it became shorter while it was read";
    done += static_cast<size_t>(got);
  }
  sample.image = buffer.view();
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const Source> open_folder(const std::string& path, std::string_view where) {
  return std::make_shared<Folder>(path, where);
}

std::shared_ptr<const Source> make_folder(CallReader& call, std::string_view where) {
  const std::string path = call.text("path");
  call.finish();
  return open_folder(path, where);
}

}  // namespace tessera::data
