// folder(path): a class for each sub-folder.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "data/index/folder_index.h"
#include "data/source_call.h"

namespace tessera::data {
namespace {

class Folder final : public Source {
 public:
  Folder(const std::string& root, std::string_view where) : root_(root), index_(root_, std::string(where)) {}
  int64_t size() const override { return index_.size(); }
  const std::vector<std::string>& class_names() const override { return index_.classes(); }
  std::string id(int64_t index) const override { return std::string(index_.path(index)); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override;
  const std::string& name() const override { return root_; }
  SourceFacts facts() const override {
    return {.shards = 0, .bytes = 0, .index = index_.from_sidecar() ? IndexOrigin::kSidecar : IndexOrigin::kBuilt};
  }

 private:
  std::string root_;
  FolderIndex index_;
};

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

std::optional<std::string> Folder::read(int64_t index, Sample& sample) const {
  sample.label = index_.label(index);
  const std::string path = fmt::format("{}/{}", root_, index_.path(index));
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
  std::string root = path;
  while (root.size() > 1 && root.ends_with('/')) root.pop_back();
  return std::make_shared<Folder>(root, where);
}

std::shared_ptr<const Source> make_folder(CallReader& call, std::string_view where) {
  const std::string path = call.text("path");
  call.finish();
  return open_folder(path, where);
}

}  // namespace tessera::data
