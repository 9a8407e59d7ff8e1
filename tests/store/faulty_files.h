#pragma once
// A file system in which the k-th operation (all but info) fails: once or from then on. A failing write leaves half its bytes
// behind, as a full disk does. A wrapper, so that the operations before the fault are real ones.

#include <unistd.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "store/file.h"

namespace tessera::testing {

class FaultyFiles : public store::FileSystem {
 public:
  explicit FaultyFiles(store::FileSystem& inner) : inner_(inner) {}

  static constexpr int kDied = 9;  // the exit code of die_at()

  // Arms the fault: operation number k (from 0, counted from this call) fails with `number`; with `sticky`, all after it too.
  void fail_at(int64_t k, int number, bool sticky = false) {
    at_ = k, number_ = number, sticky_ = sticky, count_ = 0, fired_ = false;
  }
  // Arms the end of the process instead, as if it were killed before operation number k.
  void die_at(int64_t k) { fail_at(k, 0), dies_ = true; }
  void disarm() { at_ = -1; }
  bool fired() const { return fired_; }
  // What was done so far, as "remove a/b": the order of durable steps is part of what a caller promises.
  const std::vector<std::string>& operations() const { return operations_; }

  std::optional<store::FileInfo> info(const std::string& path) override { return inner_.info(path); }
  std::vector<store::FileInfo> list(const std::string& path) override {
    check("list", path);
    return inner_.list(path);
  }
  std::unique_ptr<store::ReadableFile> open(const std::string& path) override {
    check("open", path);
    return inner_.open(path);
  }
  store::Bytes map(const std::string& path) override {
    check("map", path);
    return inner_.map(path);
  }
  std::unique_ptr<store::WritableFile> create(const std::string& path) override {
    check("create", path);
    return std::make_unique<File>(*this, inner_.create(path), path);
  }
  std::unique_ptr<store::WritableFile> append(const std::string& path) override {
    check("create", path);
    return std::make_unique<File>(*this, inner_.append(path), path);
  }
  void truncate(const std::string& path, int64_t size) override {
    run("shorten", path, [&] { inner_.truncate(path, size); });
  }
  std::unique_ptr<store::Directory> open_directory(const std::string& path) override {
    check("open", path);
    return std::make_unique<OpenDirectory>(*this, inner_.open_directory(path), path);
  }
  void make_directories(const std::string& path) override {
    run("create", path, [&] { inner_.make_directories(path); });
  }
  void rename(const std::string& from, const std::string& to) override {
    run("rename", to, [&] { inner_.rename(from, to); });
  }
  void exchange(const std::string& a, const std::string& b) override {
    run("swap", b, [&] { inner_.exchange(a, b); });
  }
  void remove_file(const std::string& path) override {
    run("remove", path, [&] { inner_.remove_file(path); });
  }
  void remove_directory(const std::string& path) override {
    run("remove", path, [&] { inner_.remove_directory(path); });
  }
  void sync_directory(const std::string& path) override {
    run("sync", path, [&] { inner_.sync_directory(path); });
  }

 private:
  class File : public store::WritableFile {
   public:
    File(FaultyFiles& owner, std::unique_ptr<store::WritableFile> inner, std::string path)
        : owner_(owner), inner_(std::move(inner)), path_(std::move(path)) {}
    void write(std::span<const std::byte> bytes) override {
      if (owner_.due()) {
        inner_->write(bytes.first(bytes.size() / 2));
        inner_->flush();
        throw store::IoError(owner_.number_, "write", path_);
      }
      inner_->write(bytes);
    }
    void flush() override {
      owner_.run("write", path_, [&] { inner_->flush(); });
    }
    void sync() override {
      owner_.run("sync", path_, [&] { inner_->sync(); });
    }
    void close() override {
      owner_.run("close", path_, [&] { inner_->close(); });
    }
    store::FileInfo info() const override { return inner_->info(); }

   private:
    FaultyFiles& owner_;
    std::unique_ptr<store::WritableFile> inner_;
    std::string path_;
  };

  class OpenDirectory : public store::Directory {
   public:
    OpenDirectory(FaultyFiles& owner, std::unique_ptr<store::Directory> inner, std::string path)
        : owner_(owner), inner_(std::move(inner)), path_(std::move(path)) {}
    store::FileId id() const override { return inner_->id(); }
    std::optional<store::FileInfo> info(const std::string& name) override { return inner_->info(name); }
    std::vector<store::FileInfo> list() override {
      owner_.check("list", path_);
      return inner_->list();
    }
    std::unique_ptr<store::Directory> open(const std::string& name) override {
      owner_.check("open", path_of(name));
      return std::make_unique<OpenDirectory>(owner_, inner_->open(name), path_of(name));
    }
    std::unique_ptr<store::WritableFile> create(const std::string& name) override {
      owner_.check("create", path_of(name));
      return std::make_unique<File>(owner_, inner_->create(name), path_of(name));
    }
    void make_directory(const std::string& name) override {
      owner_.run("create", path_of(name), [&] { inner_->make_directory(name); });
    }
    void rename(const std::string& from, const std::string& to) override {
      owner_.run("rename", path_of(to), [&] { inner_->rename(from, to); });
    }
    void remove_file(const std::string& name) override {
      owner_.run("remove", path_of(name), [&] { inner_->remove_file(name); });
    }
    void remove_directory(const std::string& name) override {
      owner_.run("remove", path_of(name), [&] { inner_->remove_directory(name); });
    }
    void sync() override {
      owner_.run("sync", path_, [&] { inner_->sync(); });
    }

   private:
    std::string path_of(const std::string& name) const { return store::join_path(path_, name); }
    FaultyFiles& owner_;
    std::unique_ptr<store::Directory> inner_;
    std::string path_;
  };

  bool due() {
    const int64_t k = count_++;
    const bool now = at_ >= 0 && (k == at_ || (sticky_ && k > at_));
    fired_ |= now;
    if (now && dies_) _exit(kDied);
    return now;
  }
  void check(const char* action, const std::string& path) {
    if (due()) throw store::IoError(number_, action, path);
  }
  void run(const char* action, const std::string& path, const std::function<void()>& operation) {
    check(action, path);
    operations_.push_back(std::string(action) + " " + path);
    operation();
  }

  store::FileSystem& inner_;
  int64_t at_ = -1, count_ = 0;
  int number_ = EIO;
  bool sticky_ = false, fired_ = false, dies_ = false;
  std::vector<std::string> operations_;
};

// A file that is mapped loses its second half, so that the system answers there as it does for a bad sector.
class CutWhenMapped : public FaultyFiles {
 public:
  using FaultyFiles::FaultyFiles;

  store::Bytes map(const std::string& path) override {
    store::Bytes bytes = FaultyFiles::map(path);
    constexpr size_t kPage = 4096;  // the rest of a page that the file ends in would be zeros without an error
    truncate(path, static_cast<int64_t>(bytes.size() / 2 / kPage * kPage));
    return bytes;
  }
};

}  // namespace tessera::testing
