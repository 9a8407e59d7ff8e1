#include "data/index/sidecar.h"

#include <fmt/core.h>

#include <cstring>

#include "base/error.h"
#include "store/encoding/crc32c.h"
#include "store/file.h"
#include "store/local/cache_directory.h"
#include "store/local/private_directory.h"

namespace tessera::data {
namespace {

constexpr char kSidecarMagic[8] = {'T', 'S', 'R', 'I', 'N', 'D', 'E', 'X'};
constexpr uint32_t kSidecarVersion = 2;
constexpr size_t kSectionAlignment = 64;

struct SidecarHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of everything after it up to the end of the table
  uint64_t fingerprint_high, fingerprint_low;
  uint32_t kind;
  uint32_t sections;
};
struct TableEntry {
  uint64_t offset, size;
  uint32_t crc, checked;
};
static_assert(sizeof(SidecarHeader) == 40 && sizeof(TableEntry) == 24);
constexpr size_t kCrcFrom = 16;

size_t aligned(size_t offset) { return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment; }

std::string make_head(SidecarKind kind, const Hash128& fingerprint, const std::vector<SidecarSection>& sections) {
  SidecarHeader header{};
  std::memcpy(header.magic, kSidecarMagic, sizeof kSidecarMagic);
  header.version = kSidecarVersion;
  header.fingerprint_high = fingerprint.high;
  header.fingerprint_low = fingerprint.low;
  header.kind = static_cast<uint32_t>(kind);
  header.sections = static_cast<uint32_t>(sections.size());
  std::string head(reinterpret_cast<const char*>(&header), sizeof header);
  size_t offset = aligned(sizeof header + sections.size() * sizeof(TableEntry));
  for (const SidecarSection& section : sections) {
    const TableEntry entry{offset, section.bytes.size(), section.checked ? store::crc32c(store::as_bytes(section.bytes)) : 0,
                           section.checked};
    head.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    offset = aligned(offset + section.bytes.size());
  }
  const uint32_t crc = store::crc32c(store::as_bytes(std::string_view(head).substr(kCrcFrom)));
  std::memcpy(head.data() + offsetof(SidecarHeader, crc), &crc, sizeof crc);
  head.resize(aligned(head.size()));
  return head;
}

// The file's bytes in order. The parts borrow `head` and what the sections do.
std::vector<std::string_view> parts_of(std::string_view head, const std::vector<SidecarSection>& sections) {
  static const std::string zeros(kSectionAlignment, '\0');
  std::vector<std::string_view> parts = {head};
  for (const SidecarSection& section : sections) {
    parts.push_back(section.bytes);
    parts.push_back(std::string_view(zeros).substr(0, aligned(section.bytes.size()) - section.bytes.size()));
  }
  return parts;
}

std::string name_in_directory(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string sidecar_path(std::string_view call, std::string_view root) {
  const std::string cache = store::cache_directory();
  if (cache.empty()) return {};
  return fmt::format("{}/index/{}.index", cache, to_string(Hasher().add(call).add(root).finish()));
}

bool write_sidecar(const std::string& path, SidecarKind kind, const Hash128& fingerprint,
                   const std::vector<SidecarSection>& sections) {
  if (path.empty()) return false;
  const std::string head = make_head(kind, fingerprint, sections);
  try {
    store::PrivateDirectory::make(store::parent_path(path)).write(name_in_directory(path), parts_of(head, sections));
    return true;
  } catch (const Error& error) {
    store::tell_cache_unused(error);
    return false;
  }
}

std::string sidecar_bytes(SidecarKind kind, const Hash128& fingerprint, const std::vector<SidecarSection>& sections) {
  std::string bytes;
  const std::string head = make_head(kind, fingerprint, sections);
  for (const std::string_view part : parts_of(head, sections)) bytes += part;
  return bytes;
}

std::optional<Sidecar> Sidecar::open(const std::string& path, SidecarKind kind, const Hash128& fingerprint, size_t sections) {
  if (path.empty()) return std::nullopt;
  try {
    const auto directory = store::PrivateDirectory::find(store::parent_path(path));
    auto bytes = directory ? directory->map(name_in_directory(path)) : std::nullopt;
    return bytes ? parse(*std::move(bytes), kind, fingerprint, sections) : std::nullopt;
  } catch (const Error& error) {
    store::tell_cache_unused(error);
    return std::nullopt;
  }
}

std::optional<Sidecar> Sidecar::parse(store::Bytes bytes, SidecarKind kind, const Hash128& fingerprint, size_t sections) {
  Sidecar sidecar;
  sidecar.file_ = std::move(bytes);
  const std::string_view file = store::as_text(sidecar.file_.data);
  const size_t head = sizeof(SidecarHeader) + sections * sizeof(TableEntry);
  if (file.size() < head) return std::nullopt;
  SidecarHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  const bool ours = std::memcmp(header.magic, kSidecarMagic, sizeof kSidecarMagic) == 0 && header.version == kSidecarVersion &&
                    header.kind == static_cast<uint32_t>(kind) && header.sections == sections &&
                    Hash128{header.fingerprint_high, header.fingerprint_low} == fingerprint;
  if (!ours || header.crc != store::crc32c(store::as_bytes(file.substr(kCrcFrom, head - kCrcFrom)))) return std::nullopt;
  for (size_t i = 0; i < sections; ++i) {
    TableEntry entry;
    std::memcpy(&entry, file.data() + sizeof header + i * sizeof entry, sizeof entry);
    if (entry.offset % kSectionAlignment != 0 || entry.offset > file.size() || entry.size > file.size() - entry.offset)
      return std::nullopt;
    const std::string_view section = file.substr(entry.offset, entry.size);
    if (entry.checked && entry.crc != store::crc32c(store::as_bytes(section))) return std::nullopt;
    sidecar.sections_.push_back(section);
  }
  if (!sidecar.readable()) return std::nullopt;
  return sidecar;
}

bool TextView::valid() const {
  uint64_t last = 0;
  for (const uint64_t end : ends_) {
    if (end < last || end > text_.size()) return false;
    last = end;
  }
  return true;
}

}  // namespace tessera::data
