#pragma once
// A file system in memory that can lose its power. Contents become durable by sync(), names by sync_directory(); a power cut
// brings back what was durable and, for the rest, one of the states a disk may be in. The power may also go after the k-th
// operation.

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "store/file.h"

namespace tessera::testing {

// Thrown by every operation once the power is off. Not a tessera::Error, so that nobody handles it.
struct PowerCut {};

class MemoryFiles : public store::FileSystem {
 public:
  // What the disk kept of changes that were not synced.
  enum class Loss {
    kAllLost,       // neither names nor contents
    kNamesKept,     // names, but contents only as far as synced: zero-length or old files
    kContentsTorn,  // names, and half of the unsynced bytes
  };

  MemoryFiles() { root_ = std::make_shared<Node>(Node{true}); }

  // The operation number k from now (0, 1, …) is the last one; those after it throw PowerCut.
  void cut_after(int64_t k) { left_ = k + 1; }
  bool power_is_off() const { return off_; }
  // Starts again from what the disk held.
  void restart(Loss loss) {
    off_ = false, left_ = -1;
    root_ = survivor(*root_, loss);
  }

  std::optional<store::FileInfo> info(const std::string& path) override {
    if (off_) throw PowerCut{};
    const auto node = find(path);
    if (!node) return std::nullopt;
    return describe(path.substr(path.rfind('/') + 1), *node);
  }
  std::vector<store::FileInfo> list(const std::string& path) override { return entries_of(directory(path, "list")); }
  std::unique_ptr<store::ReadableFile> open(const std::string& path) override {
    return std::make_unique<Reader>(file(path, "open")->content);
  }
  store::Bytes map(const std::string& path) override { return store::copy_bytes(store::as_bytes(file(path, "map")->content)); }

  std::unique_ptr<store::WritableFile> create(const std::string& path) override {
    step();
    auto node = std::make_shared<Node>();
    directory(store::parent_path(path), "create").entries[last(path)] = node;
    return std::make_unique<Writer>(*this, node);
  }
  std::unique_ptr<store::WritableFile> append(const std::string& path) override {
    if (!find(path)) return create(path);
    step();
    return std::make_unique<Writer>(*this, file(path, "create"));
  }
  void truncate(const std::string& path, int64_t size) override {
    step();
    file(path, "shorten")->content.resize(static_cast<size_t>(size));
  }
  std::unique_ptr<store::Directory> open_directory(const std::string& path) override {
    directory(path, "open");
    return std::make_unique<OpenDirectory>(*this, find(path));
  }
  void make_directories(const std::string& path) override {
    if (find(path)) return;
    const std::string parent = store::parent_path(path);
    make_directories(parent);
    step();
    auto& entries = directory(parent, "create").entries;
    entries[last(path)] = std::make_shared<Node>(Node{true});
    sync_directory(parent);
  }
  void rename(const std::string& from, const std::string& to) override {
    step();
    auto& source = directory(store::parent_path(from), "rename").entries;
    const auto found = source.find(last(from));
    if (found == source.end()) throw store::IoError(ENOENT, "rename", from);
    auto& target = directory(store::parent_path(to), "rename").entries;
    const auto old = target.find(last(to));
    if (old != target.end() && old->second->directory && !old->second->entries.empty())
      throw store::IoError(ENOTEMPTY, "rename", to);
    target[last(to)] = found->second;
    source.erase(last(from));
  }
  void exchange(const std::string& a, const std::string& b) override {
    step();
    auto& entries = directory(store::parent_path(a), "swap").entries;
    if (!entries.contains(last(a)) || !entries.contains(last(b))) throw store::IoError(ENOENT, "swap", a);
    std::swap(entries[last(a)], entries[last(b)]);
  }
  void remove_file(const std::string& path) override {
    step();
    file(path, "remove");
    directory(store::parent_path(path), "remove").entries.erase(last(path));
  }
  void remove_directory(const std::string& path) override {
    step();
    if (!directory(path, "remove").entries.empty()) throw store::IoError(ENOTEMPTY, "remove", path);
    directory(store::parent_path(path), "remove").entries.erase(last(path));
  }
  void sync_directory(const std::string& path) override {
    step();
    Node& node = directory(path, "sync");
    node.durable_entries = node.entries;
  }

 private:
  struct Node {
    bool directory = false;
    std::map<std::string, std::shared_ptr<Node>> entries, durable_entries;
    std::string content, durable_content;
  };

  struct Reader : store::ReadableFile {
    explicit Reader(std::string text) : content(std::move(text)) {}
    int64_t size() const override { return static_cast<int64_t>(content.size()); }
    void read(int64_t offset, std::span<std::byte> out) const override {
      const auto bytes = store::as_bytes(content).subspan(static_cast<size_t>(offset), out.size());
      std::copy(bytes.begin(), bytes.end(), out.begin());
    }
    std::string content;
  };

  struct Writer : store::WritableFile {
    Writer(MemoryFiles& system, std::shared_ptr<Node> target) : files(system), node(std::move(target)) {}
    void write(std::span<const std::byte> bytes) override {
      files.step();
      node->content += store::as_text(bytes);
    }
    void flush() override {}
    void sync() override {
      files.step();
      node->durable_content = node->content;
    }
    void close() override {}
    store::FileInfo info() const override { return describe({}, *node); }
    MemoryFiles& files;
    std::shared_ptr<Node> node;
  };

  struct OpenDirectory : store::Directory {
    OpenDirectory(MemoryFiles& system, std::shared_ptr<Node> opened) : files(system), node(std::move(opened)) {}
    store::FileId id() const override { return describe({}, *node).id; }
    std::optional<store::FileInfo> info(const std::string& name) override {
      if (files.off_) throw PowerCut{};
      const auto found = node->entries.find(name);
      if (found == node->entries.end()) return std::nullopt;
      return describe(name, *found->second);
    }
    std::vector<store::FileInfo> list() override {
      if (files.off_) throw PowerCut{};
      return entries_of(*node);
    }
    std::unique_ptr<store::Directory> open(const std::string& name) override {
      const auto found = at(name, "open");
      if (!found->directory) throw store::IoError(ENOTDIR, "open", name);
      return std::make_unique<OpenDirectory>(files, found);
    }
    std::unique_ptr<store::WritableFile> create(const std::string& name) override {
      files.step();
      const auto made = std::make_shared<Node>();
      if (!node->entries.emplace(name, made).second) throw store::IoError(EEXIST, "create", name);
      return std::make_unique<Writer>(files, made);
    }
    void make_directory(const std::string& name) override {
      files.step();
      if (!node->entries.emplace(name, std::make_shared<Node>(Node{true})).second) throw store::IoError(EEXIST, "create", name);
    }
    void rename(const std::string& from, const std::string& to) override {
      files.step();
      node->entries[to] = at(from, "rename");
      node->entries.erase(from);
    }
    void remove_file(const std::string& name) override {
      files.step();
      if (at(name, "remove")->directory) throw store::IoError(EISDIR, "remove", name);
      node->entries.erase(name);
    }
    void remove_directory(const std::string& name) override {
      files.step();
      if (!at(name, "remove")->entries.empty()) throw store::IoError(ENOTEMPTY, "remove", name);
      node->entries.erase(name);
    }
    void sync() override {
      files.step();
      node->durable_entries = node->entries;
    }

   private:
    std::shared_ptr<Node> at(const std::string& name, const char* action) const {
      if (files.off_) throw PowerCut{};
      const auto found = node->entries.find(name);
      if (found == node->entries.end()) throw store::IoError(ENOENT, action, name);
      return found->second;
    }
    MemoryFiles& files;
    std::shared_ptr<Node> node;
  };

  static std::string last(const std::string& path) { return path.substr(path.rfind('/') + 1); }

  void step() {
    if (left_ == 0) off_ = true;
    if (off_) throw PowerCut{};
    if (left_ > 0) --left_;
  }
  std::shared_ptr<Node> find(const std::string& path) const {
    if (path == "." || path == "/") return root_;
    const auto parent = find(store::parent_path(path));
    if (!parent || !parent->directory) return nullptr;
    const auto found = parent->entries.find(last(path));
    return found == parent->entries.end() ? nullptr : found->second;
  }
  Node& directory(const std::string& path, const char* action) const {
    if (off_) throw PowerCut{};
    const auto node = find(path);
    if (!node) throw store::IoError(ENOENT, action, path);
    if (!node->directory) throw store::IoError(ENOTDIR, action, path);
    return *node;
  }
  std::shared_ptr<Node> file(const std::string& path, const char* action) const {
    if (off_) throw PowerCut{};
    auto node = find(path);
    if (!node) throw store::IoError(ENOENT, action, path);
    if (node->directory) throw store::IoError(EISDIR, action, path);
    return node;
  }
  static store::FileInfo describe(std::string name, const Node& node) {
    return {std::move(name),
            node.directory,
            false,
            static_cast<int64_t>(node.content.size()),
            {0, reinterpret_cast<uintptr_t>(&node)}};
  }
  static std::vector<store::FileInfo> entries_of(const Node& node) {
    std::vector<store::FileInfo> entries;
    for (const auto& [name, child] : node.entries) entries.push_back(describe(name, *child));
    return entries;
  }
  static std::shared_ptr<Node> survivor(const Node& node, Loss loss) {
    auto kept = std::make_shared<Node>(Node{node.directory});
    for (const auto& [name, child] : loss == Loss::kAllLost ? node.durable_entries : node.entries) {
      kept->entries[name] = survivor(*child, loss);
    }
    kept->durable_entries = kept->entries;
    kept->content = node.durable_content;
    if (loss == Loss::kContentsTorn && node.content.size() > node.durable_content.size()) {
      kept->content = node.content.substr(0, (node.content.size() + node.durable_content.size()) / 2);
    }
    kept->durable_content = kept->content;
    return kept;
  }

  std::shared_ptr<Node> root_;
  int64_t left_ = -1;  // operations until the cut; -1: none planned
  bool off_ = false;
};

}  // namespace tessera::testing
