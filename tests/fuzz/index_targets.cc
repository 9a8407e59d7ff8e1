#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "data/formats/manifest.h"
#include "data/index/folder_objects.h"
#include "data/index/label_column.h"
#include "data/index/listing.h"
#include "data/index/manifest_check.h"
#include "data/index/shard_names.h"
#include "data/index/shards.h"
#include "data/index/sidecar.h"
#include "fuzz/targets.h"
#include "store/encoding/crc32c.h"

namespace tessera::fuzz {
namespace {

using namespace data;

// The longest run of digits.
int64_t most_digits(std::string_view text) {
  int64_t longest = 0, run = 0;
  for (const char c : text) longest = std::max(longest, run = c >= '0' && c <= '9' ? run + 1 : 0);
  return longest;
}

// Ranges of up to ten million names are taken, at some seconds each: long numbers are left out.
bool braces(std::string_view bytes) {
  if (bytes.size() > 24 || most_digits(bytes) > 2) return false;
  return parses([&] {
    const std::vector<std::string> names = expand_braces(std::string(bytes));
    parses([&] {
      check_shards_complete(names, "fuzz");
      return true;
    });
    return names.size() > 1;
  });
}

bool extents(std::string_view bytes) {
  for (int64_t count = 1; count <= std::min<int64_t>(64, static_cast<int64_t>(bytes.size() / 2)); ++count) {
    std::string_view rest = bytes;
    const auto found = take_extents(rest, count);
    if (!found) continue;
    TESSERA_CHECK(static_cast<int64_t>(found->size()) == count);
    if (rest.empty()) return true;
  }
  return false;
}

// Labels written again are read as they were; numbers that are no class are not written.
void check_written(const std::vector<CodedLabel>& labels, const std::vector<std::string>& names) {
  constexpr int64_t kMaxNumber = int64_t{1} << 60;
  if (std::ranges::any_of(labels, [](const auto& label) { return label.value <= -kMaxNumber || label.value >= kMaxNumber; }))
    return;
  LabelColumn column;
  for (const CodedLabel& label : labels) {
    switch (label.kind) {
      case CodedLabel::Kind::kNone: column.add_none(); break;
      case CodedLabel::Kind::kNumber: column.add(label.value); break;
      case CodedLabel::Kind::kName: column.add(names[static_cast<size_t>(label.value)]); break;
    }
  }
  TESSERA_CHECK(decode_labels(column.encode(names), column.size(), std::ssize(names)) == labels);
  LabelsFound found, all;
  found.add(column);
  all.merge(found);
  const bool numbers = std::ranges::any_of(labels, [](const auto& label) { return label.kind == CodedLabel::Kind::kNumber; });
  TESSERA_CHECK((all.least <= all.most) == numbers && all.names.size() == column.names().size());
}

// The same of lists of labels.
void check_lists(const CodedLabels& lists, int64_t count, const std::vector<std::string>& names) {
  constexpr int64_t kMaxNumber = int64_t{1} << 60;
  TESSERA_CHECK(std::ssize(lists.ends) == count);
  LabelColumn column;
  bool small = true;
  for (int64_t sample = 0; sample < count; ++sample) {
    for (const CodedLabel& label : lists.of(sample)) {
      small = small && -kMaxNumber < label.value && label.value < kMaxNumber;
      switch (label.kind) {
        case CodedLabel::Kind::kNone: column.add_none(); break;
        case CodedLabel::Kind::kNumber: column.add(label.value); break;
        case CodedLabel::Kind::kName: column.add(names.at(static_cast<size_t>(label.value))); break;
      }
    }
    column.end_list();
  }
  TESSERA_CHECK(!small || decode_label_lists(column.encode(names), count, std::ssize(names)) == lists);
}

bool labels(std::string_view bytes) {
  const std::vector<std::string> names = {"cat", "dog", "owl"};
  const int64_t name_count = std::ssize(names);
  bool any_lists = false;
  for (int64_t count = 1; count <= std::min<int64_t>(64, static_cast<int64_t>(bytes.size())); ++count) {
    const auto lists = decode_label_lists(bytes, count, name_count);
    if (lists) check_lists(*lists, count, names);
    any_lists = any_lists || lists;
  }
  for (int64_t count = 1; count <= std::min<int64_t>(64, static_cast<int64_t>(bytes.size())); ++count) {
    const auto found = decode_labels(bytes, count, name_count);
    if (!found) continue;
    TESSERA_CHECK(static_cast<int64_t>(found->size()) == count);
    for (const CodedLabel& label : *found) {
      TESSERA_CHECK(label.kind != CodedLabel::Kind::kName || (0 <= label.value && label.value < name_count));
    }
    check_written(*found, names);
    return true;
  }
  return any_lists;
}

template <class T>
T number_at(std::string_view bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// A folder of this process alone, removed when it ends.
class Folder {
 public:
  Folder() { std::filesystem::create_directory(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  std::string path_ = fmt::format("{}/tessera-fuzz-{}", std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp", getpid());
};

// Sections written again are read as they were.
void check_written(const Sidecar& sidecar, SidecarKind kind, const Hash128& fingerprint, size_t count) {
  static const Folder folder;
  const std::string path = folder.file("written");
  TESSERA_CHECK(count == 0 || sidecar_path(sidecar.section(0), path) == sidecar_path(sidecar.section(0), path));
  std::vector<SidecarSection> sections;
  for (size_t i = 0; i < count; ++i) sections.push_back({sidecar.section(i), i % 2 == 0});
  TESSERA_CHECK(write_sidecar(path, kind, fingerprint, sections));
  const auto again = Sidecar::open(path, kind, fingerprint, count);
  TESSERA_CHECK(again && again->readable());
  for (size_t i = 0; i < count; ++i) TESSERA_CHECK(again->section(i) == sidecar.section(i));
}

// Shards beside their manifest are taken as it says; not when one is longer, nor when one is gone. Lists of classes, whose
// split is empty, would need their true checksums.
void check_beside(const std::vector<ManifestFile>& files) {
  constexpr size_t kMaxFiles = 4;
  constexpr int64_t kMaxSize = 4096;
  static const Folder folder;
  std::vector<std::string> paths;
  std::vector<int64_t> samples;
  for (const ManifestFile& file : files) {
    const bool plain = std::ranges::all_of(file.name, [](char c) { return c == '-' || std::isalnum(static_cast<uint8_t>(c)); });
    if (files.size() > kMaxFiles || !plain || file.name.size() > 100 || file.size > kMaxSize || file.split.empty()) return;
    paths.push_back(folder.file(file.name));
    samples.push_back(file.samples);
  }
  if (std::set(paths.begin(), paths.end()).size() != paths.size() || paths.empty()) return;
  const auto write = [](const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; };
  write(folder.file("manifest.json"), manifest_text(files));
  for (size_t i = 0; i < paths.size(); ++i) write(paths[i], std::string(static_cast<size_t>(files[i].size), 'x'));
  const auto is_taken = [&] { return parses([&] { return check_manifests(paths, "fuzz") == samples; }); };
  TESSERA_CHECK(is_taken());
  write(paths.back(), std::string(static_cast<size_t>(files.back().size) + 1, 'x'));
  TESSERA_CHECK(!is_taken());
  std::filesystem::remove(paths.back());
  TESSERA_CHECK(!is_taken());
  for (const std::string& path : paths) std::filesystem::remove(path);
}

// A manifest, and as one line of it. What is read is read again as it was written.
bool manifest(std::string_view bytes) {
  if (const auto line = parse_manifest_line(bytes)) {
    const auto again = parse_manifest_line(manifest_line(*line));
    TESSERA_CHECK(again && manifest_line(*again) == manifest_line(*line));
    return true;
  }
  return parses([&] {
    const auto files = parse_manifest(bytes, "fuzz");
    if (!files) return false;
    const std::string written = manifest_text(*files);
    const auto again = parse_manifest(written, "written");
    TESSERA_CHECK(again && again->size() == files->size() && manifest_text(*again) == written);
    check_beside(*files);
    return true;
  });
}

// The frame with its checksums put right: kind, fingerprint and number of sections are those of the file itself.
bool sidecar(std::string_view text) {
  constexpr size_t kMaxSections = 64;
  const std::string bytes = reseal_sidecar(text);
  if (bytes.size() < 40) return false;
  const size_t sections = std::min<size_t>(number_at<uint32_t>(bytes, 36), kMaxSections);
  const Hash128 fingerprint{number_at<uint64_t>(bytes, 16), number_at<uint64_t>(bytes, 24)};
  const auto kind = static_cast<SidecarKind>(number_at<uint32_t>(bytes, 32));
  const auto opened = Sidecar::parse(store::copy_bytes(store::as_bytes(bytes)), kind, fingerprint, sections);
  if (!opened) return false;
  for (size_t i = 0; i < sections; ++i) {
    store::crc32c(store::as_bytes(opened->section(i)));
    const auto ends = opened->array<uint64_t>(i);
    if (!ends) continue;
    const TextView texts(opened->section((i + 1) % sections), *ends);
    if (!texts.valid()) continue;
    for (size_t k = 0; k < texts.size(); ++k) store::crc32c(store::as_bytes(texts[k]));
  }
  check_written(*opened, kind, fingerprint, sections);
  return true;
}

// The list of a bucket's folder, with its checksums put right: what is read is read again as it was written.
bool folder_objects(std::string_view text) {
  const auto found = FolderObjects::decode(reseal_sidecar(text));
  if (!found) return false;
  const std::string written = found->encode();
  const auto again = FolderObjects::decode(written);
  TESSERA_CHECK(again && again->encode() == written && again->bytes() == found->bytes());
  TESSERA_CHECK(found->first.back() == static_cast<int64_t>(found->objects.size()));
  return true;
}

}  // namespace

const std::vector<NamedTarget>& index_targets() {
  static const std::vector<NamedTarget> all = {{"braces", braces, 24},
                                               {"extents", extents, 128},
                                               {"labels", labels, 128},
                                               {"sidecar", sidecar, 1024},
                                               {"folder_objects", folder_objects, 1024},
                                               {"manifest", manifest, 1024}};
  return all;
}

std::string reseal_sidecar(std::string_view text) {
  constexpr size_t kCrc = 12, kCrcFrom = 16, kSections = 36, kTable = 40, kEntry = 24;
  std::string bytes(text);
  const auto put_crc = [&](size_t at, size_t begin, size_t size) {
    const uint32_t crc = store::crc32c(store::as_bytes(std::string_view(bytes).substr(begin, size)));
    std::memcpy(bytes.data() + at, &crc, sizeof crc);
  };
  if (bytes.size() < kTable) return bytes;
  const uint64_t sections = number_at<uint32_t>(bytes, kSections);
  for (uint64_t i = 0; i < sections && kTable + (i + 1) * kEntry <= bytes.size(); ++i) {
    const size_t at = kTable + i * kEntry;
    const auto offset = number_at<uint64_t>(bytes, at), size = number_at<uint64_t>(bytes, at + 8);
    if (offset <= bytes.size() && size <= bytes.size() - offset) put_crc(at + 16, offset, size);
  }
  if (sections <= (bytes.size() - kTable) / kEntry) put_crc(kCrc, kCrcFrom, kTable - kCrcFrom + sections * kEntry);
  return bytes;
}

}  // namespace tessera::fuzz
