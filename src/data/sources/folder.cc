// folder(path): a class for each sub-folder.

#include "base/error.h"
#include "data/index/folder_index.h"
#include "data/index/listing.h"
#include "data/read_file.h"
#include "data/source_call.h"

namespace tessera::data {
namespace {

class Folder final : public Source {
 public:
  Folder(const std::string& root, std::string_view where) : root_(root), index_(root_, std::string(where)) {}
  int64_t size() const override { return index_.size(); }
  const std::vector<std::string>& class_names() const override { return index_.classes(); }
  std::optional<std::vector<int64_t>> class_sizes() const override { return index_.class_sizes(); }
  std::optional<std::vector<int32_t>> labels() const override {
    std::vector<int32_t> labels(static_cast<size_t>(size()));
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = index_.label(static_cast<int64_t>(i));
    return labels;
  }
  std::string id(int64_t index) const override { return index_.path(index); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override;
  const std::string& name() const override { return root_; }
  std::optional<uint64_t> stamp(int64_t index) const override {
    const store::ListedObject* object = index_.object(index);
    if (!object) return stamp_number(path_of(index));
    if (object->version == 0) return std::nullopt;
    return stamp_number(FileStamp{object->size, object_version(static_cast<uint64_t>(object->version) << 1)});
  }
  std::optional<Hash128> fingerprint() const override {
    if (size() > 0 && index_.object(0)) return fingerprint_objects();
    return fingerprint_files(size(), [this](int64_t i) { return path_of(i); });
  }
  void prefetch(int64_t index) const override { fetch_file(path_of(index), index_.object(index)); }
  SourceFacts facts() const override {
    return {.shards = 0,
            .bytes = static_cast<uint64_t>(index_.bytes()),
            .index = index_.from_sidecar() ? IndexOrigin::kSidecar : IndexOrigin::kBuilt};
  }

 private:
  // Of what the listing told: asking for each would take a question a file.
  Hash128 fingerprint_objects() const {
    Hasher hasher;
    for (int64_t i = 0; i < size(); ++i) {
      const store::ListedObject& object = *index_.object(i);
      hasher.add(path_of(i)).add({reinterpret_cast<const char*>(&object), sizeof object});
    }
    return hasher.finish();
  }
  std::string path_of(int64_t index) const { return fmt::format("{}/{}", root_, index_.path(index)); }
  std::string root_;
  FolderIndex index_;
};

std::optional<std::string> Folder::read(int64_t index, Sample& sample) const {
  sample.label = index_.label(index);
  sample.texts.clear();
  if (auto reason = read_whole_file(path_of(index), sample.memory, index_.object(index))) return reason;
  sample.image = sample.memory.view();
  return std::nullopt;
}

std::shared_ptr<const Source> make_folder(CallReader& call, std::string_view where) {
  const std::string path = call.text("path");
  call.finish();
  return open_folder(path, where);
}

}  // namespace

std::shared_ptr<const Source> open_folder(const std::string& path, std::string_view where) {
  std::string root = path;
  while (root.size() > 1 && root.ends_with('/')) root.pop_back();
  return std::make_shared<Folder>(root, where);
}

const SourceKind kFolder{"folder", "folder(path)", "a folder with one sub-folder a class", make_folder};

}  // namespace tessera::data
