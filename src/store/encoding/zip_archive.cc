#include "store/encoding/zip_archive.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zip.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"

namespace tessera::store {
namespace {

// A zip archive packs at most about a thousand to one: an entry that claims more is not unpacked.
constexpr uint64_t kMaxRatio = 1100;
// What all entries may take together: that is more, for a file, than any of weights unpacks to, and less than what members that
// are nothing but zeros, or that share their bytes, make of a small file.
constexpr uint64_t kFreeBytes = uint64_t{1} << 30, kMaxTotalRatio = 16;
constexpr size_t kUnpackedPart = 1 << 20;

struct FileCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

// One entry, being unpacked.
class ZipArchive::Reader {
 public:
  Reader(const ZipArchive& archive, uint64_t index)
      : archive_(archive), index_(index), file_(zip_fopen_index(archive.archive_.get(), index, 0)) {
    if (!file_) archive.fail(index, fmt::format("cannot be read: {}", zip_strerror(archive.archive_.get())));
  }
  // At least one byte, where there is room for one. Throws at the end.
  size_t read(std::span<std::byte> to) {
    const zip_int64_t got = zip_fread(file_.get(), to.data(), to.size());
    if (got <= 0) damaged();
    return static_cast<size_t>(got);
  }
  // The checksum is compared when the end is read.
  void end() {
    std::byte beyond;
    if (zip_fread(file_.get(), &beyond, 1) < 0) damaged();
  }

 private:
  [[noreturn]] void damaged() { archive_.fail(index_, fmt::format("is damaged: {}", zip_file_strerror(file_.get()))); }

  const ZipArchive& archive_;
  uint64_t index_;
  std::unique_ptr<zip_file_t, FileCloser> file_;
};

void ZipArchive::Closer::operator()(zip* archive) const { zip_discard(archive); }

ZipArchive::ZipArchive(const std::string& path, const std::string& what, std::string entry)
    : path_(path), entry_(std::move(entry)) {
  int code = 0;
  archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive_) {
    std::error_code error;
    file_size_ = std::filesystem::file_size(path, error);
    if (error) throw data_error(fmt::format("cannot be read as {}: {}", what, error.message()), path);
    return;
  }
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw data_error(fmt::format("cannot be read as {}: {}", what, reason), path);
}

uint64_t ZipArchive::size() const { return static_cast<uint64_t>(zip_get_num_entries(archive_.get(), 0)); }

std::string ZipArchive::name(uint64_t index) const {
  const char* raw = zip_get_name(archive_.get(), index, 0);
  return raw ? raw : "";
}

std::optional<uint64_t> ZipArchive::find(const std::string& name) const {
  const zip_int64_t index = zip_name_locate(archive_.get(), name.c_str(), 0);
  return index < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(index));
}

void ZipArchive::fail(uint64_t index, const std::string& what) const {
  throw data_error(fmt::format("the {} `{}` {}", entry_, one_line(name(index)), what), path_);
}

uint64_t ZipArchive::most_bytes() const { return std::max(kFreeBytes, kMaxTotalRatio * file_size_); }

void ZipArchive::check_sizes(const std::vector<uint64_t>& entries) const {
  uint64_t total = 0;
  for (const uint64_t index : entries) {
    total += sizes(index).unpacked;
    if (total > most_bytes()) {
      throw data_error(fmt::format("unpacks to more than {}, from {}", human_bytes(static_cast<double>(total)),
                                   human_bytes(static_cast<double>(file_size_))),
                       path_, "images and weights pack less; if it holds these, write it again without compression");
    }
  }
}

ZipArchive::Sizes ZipArchive::sizes(uint64_t index) const {
  zip_stat_t stat;
  constexpr zip_uint64_t kSizes = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
  if (zip_stat_index(archive_.get(), index, 0, &stat) != 0 || (stat.valid & kSizes) != kSizes) fail(index, "has no size");
  // Both sizes are the file's own claims.
  if (stat.comp_size > file_size_ || stat.size / kMaxRatio > stat.comp_size) {
    fail(index, "claims more bytes than its packed ones can hold");
  }
  return {stat.comp_size, stat.size};
}

uint64_t ZipArchive::unpacked_size(uint64_t index) const { return sizes(index).unpacked; }

uint32_t ZipArchive::unix_mode(uint64_t index) const {
  zip_uint8_t system = 0;
  zip_uint32_t attributes = 0;
  if (zip_file_get_external_attributes(archive_.get(), index, 0, &system, &attributes) != 0) return 0;
  return system == ZIP_OPSYS_UNIX || system == ZIP_OPSYS_OS_X ? attributes >> 16 : 0;
}

bool ZipArchive::regular(uint64_t index) const {
  const uint32_t type = unix_mode(index) & S_IFMT;
  return !name(index).ends_with('/') && (type == 0 || type == S_IFREG);
}

bool ZipArchive::executable(uint64_t index) const { return (unix_mode(index) & S_IXUSR) != 0; }

void ZipArchive::read(uint64_t index, const std::function<void(std::span<const std::byte>)>& take) const {
  uint64_t left = unpacked_size(index);
  Reader reader(*this, index);
  std::vector<std::byte> part(std::min<uint64_t>(kUnpackedPart, left));
  while (left > 0) {
    const size_t got = reader.read(std::span(part).first(std::min<uint64_t>(part.size(), left)));
    take(std::span(part).first(got));
    left -= got;
  }
  reader.end();
}

std::vector<std::byte> ZipArchive::head(uint64_t index, size_t most) const {
  std::vector<std::byte> bytes(std::min<uint64_t>(most, unpacked_size(index)));
  Reader reader(*this, index);
  for (size_t at = 0; at < bytes.size();) at += reader.read(std::span(bytes).subspan(at));
  return bytes;
}

std::vector<std::byte> ZipArchive::bytes(uint64_t index) const {
  std::vector<std::byte> bytes;
  bytes.reserve(unpacked_size(index));
  read(index, [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

}  // namespace tessera::store
