#include "data/tools/prepare/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/formats/bytes/bytes_file.h"
#include "data/formats/bytes/window.h"
#include "data/formats/tar.h"
#include "store/encoding/zip_archive.h"
#include "store/file.h"

namespace tessera::data {
namespace {

constexpr int64_t kMemberReadBytes = 1 << 20;

class TarArchive final : public Archive {
 public:
  // Bytes [begin, begin + size) of `file`.
  TarArchive(std::string name, std::shared_ptr<const store::ReadableFile> file, int64_t begin, int64_t size)
      : file_(std::move(file)), begin_(begin), size_(size) {
    name_ = std::move(name);
    const Range range(*this);
    Window window(range);
    int64_t at = 0;
    while (auto member = read_tar_member(name_, window, at)) {
      at = member->end;
      members_.push_back({std::move(member->name), member->size, member->data, member->regular});
    }
    // Two blocks of zeros; one is there wherever reading stopped before the file's end.
    if (at >= size_)
      throw data_error(fmt::format("`{}` ends without the mark of a tar archive's end", name_), {},
                       "it was not copied whole: copy it again");
  }

  void read(const ArchiveMember& member, const std::function<void(std::span<const std::byte>)>& take) const override {
    std::vector<std::byte> part(static_cast<size_t>(std::min(kMemberReadBytes, member.size)));
    for (int64_t done = 0; done < member.size; done += std::ssize(part)) {
      part.resize(static_cast<size_t>(std::min(kMemberReadBytes, member.size - done)));
      file_->read(begin_ + member.at + done, part);
      take(part);
    }
  }

  std::shared_ptr<const Archive> inner(const ArchiveMember& member) const {
    return std::make_shared<TarArchive>(fmt::format("{}: {}", name_, one_line(member.name)), file_, begin_ + member.at,
                                        member.size);
  }

 private:
  // The archive alone, for its parser.
  class Range final : public store::ReadableFile {
   public:
    explicit Range(const TarArchive& of) : of_(of) {}
    int64_t size() const override { return of_.size_; }
    void read(int64_t offset, std::span<std::byte> out) const override { of_.file_->read(of_.begin_ + offset, out); }

   private:
    const TarArchive& of_;
  };

  std::shared_ptr<const store::ReadableFile> file_;
  int64_t begin_, size_;
};

// Bytes in memory with what keeps them.
class OwnedBytes final : public store::ReadableFile {
 public:
  explicit OwnedBytes(std::string bytes) : bytes_(std::move(bytes)), file_(bytes_) {}
  int64_t size() const override { return file_.size(); }
  void read(int64_t offset, std::span<std::byte> out) const override { file_.read(offset, out); }

 private:
  std::string bytes_;
  BytesFile file_;
};

class ZipOfImages final : public Archive {
 public:
  explicit ZipOfImages(const std::string& path) : path_(path) {
    name_ = path;
    const auto zip = take_reader();
    std::vector<uint64_t> all(zip->size());
    std::iota(all.begin(), all.end(), uint64_t{0});
    zip->check_sizes(all);
    for (uint64_t i = 0; i < zip->size(); ++i) {
      members_.push_back({zip->name(i), static_cast<int64_t>(zip->unpacked_size(i)), static_cast<int64_t>(i), zip->regular(i)});
    }
    give_back(zip);
  }

  void read(const ArchiveMember& member, const std::function<void(std::span<const std::byte>)>& take) const override {
    const auto zip = take_reader();
    zip->read(static_cast<uint64_t>(member.at), take);
    give_back(zip);
  }

 private:
  // libzip's archives are for one thread: each read has one to itself.
  std::shared_ptr<const store::ZipArchive> take_reader() const {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        auto reader = std::move(idle_.back());
        idle_.pop_back();
        return reader;
      }
    }
    return std::make_shared<store::ZipArchive>(path_, "a zip archive", "member");
  }
  void give_back(std::shared_ptr<const store::ZipArchive> reader) const {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(reader));
  }

  std::string path_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const store::ZipArchive>> idle_;
};

[[noreturn]] void refuse(const Archive& archive, const ArchiveMember& member, const char* why) {
  throw data_error(fmt::format("`{}` holds `{}`, {}", archive.name(), one_line(member.name), why), {},
                   "nothing of it was written; take the archive from where it is published");
}

}  // namespace

void Archive::expect_at_most(const ArchiveMember& member, int64_t most) const {
  if (member.size <= most) return;
  throw data_error(fmt::format("`{}` of `{}` has {}, more than {}", one_line(member.name), name_,
                               human_bytes(static_cast<double>(member.size)), human_bytes(static_cast<double>(most))),
                   {}, "take the archive from where it is published");
}

std::string Archive::read_all(const ArchiveMember& member, int64_t most) const {
  expect_at_most(member, most);
  std::string out;
  read(member, [&](std::span<const std::byte> part) { out += store::as_text(part); });
  return out;
}

std::shared_ptr<const Archive> open_tar(const std::string& path) {
  std::shared_ptr<const store::ReadableFile> file = store::local_files().open(path);
  const int64_t size = file->size();
  return std::make_shared<TarArchive>(path, std::move(file), 0, size);
}

std::shared_ptr<const Archive> open_inner_tar(const Archive& outer, const ArchiveMember& member) {
  const auto* tar = dynamic_cast<const TarArchive*>(&outer);
  TESSERA_CHECK(tar != nullptr, "{} is no tar archive", outer.name());
  return tar->inner(member);
}

std::shared_ptr<const Archive> open_tar_bytes(std::string bytes, const std::string& name) {
  auto file = std::make_shared<const OwnedBytes>(std::move(bytes));
  const int64_t size = file->size();
  return std::make_shared<TarArchive>(name, std::move(file), 0, size);
}

std::shared_ptr<const Archive> open_zip(const std::string& path) { return std::make_shared<ZipOfImages>(path); }

std::string_view without_dot(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  return name;
}

std::string file_name_of(const Archive& archive, const ArchiveMember& member) {
  if (!member.regular) refuse(archive, member, "which is no plain file");
  for (const std::string& part : split(without_dot(member.name), '/')) {
    if (part.empty() || part == ".." || part == ".") refuse(archive, member, "whose name leads elsewhere");
  }
  std::string name = store::last_part(member.name);
  const bool plain = name.front() != '.' && std::ranges::all_of(name, [](unsigned char c) {
                       return std::isalnum(c) || c == '.' || c == '_' || c == '-';
                     });
  if (!plain) refuse(archive, member, "whose name is none of an image of it");
  return name;
}

}  // namespace tessera::data
