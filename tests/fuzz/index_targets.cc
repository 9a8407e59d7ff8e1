#include <algorithm>
#include <cstring>

#include "data/index/listing.h"
#include "data/index/shards.h"
#include "data/index/sidecar.h"
#include "fuzz/targets.h"
#include "store/crc32c.h"

namespace tessera::fuzz {
namespace {

using namespace data;

bool braces(std::string_view bytes) {
  if (bytes.size() > 24) return false;
  return parses([&] { return expand_braces(std::string(bytes)).size() > 1; });
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

bool labels(std::string_view bytes) {
  constexpr int64_t kNames = 3;
  for (int64_t count = 1; count <= std::min<int64_t>(64, static_cast<int64_t>(bytes.size())); ++count) {
    const auto found = decode_labels(bytes, count, kNames);
    if (!found) continue;
    TESSERA_CHECK(static_cast<int64_t>(found->size()) == count);
    for (const CodedLabel& label : *found) {
      TESSERA_CHECK(label.kind != CodedLabel::Kind::kName || (0 <= label.value && label.value < kNames));
    }
    return true;
  }
  return false;
}

template <class T>
T number_at(std::string_view bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The frame with its checksums put right: kind, fingerprint and number of sections are those of the file itself.
bool sidecar(std::string_view text) {
  constexpr size_t kMostSections = 64;
  const std::string bytes = reseal_sidecar(text);
  if (bytes.size() < 40) return false;
  const size_t sections = std::min<size_t>(number_at<uint32_t>(bytes, 36), kMostSections);
  const Hash128 fingerprint{number_at<uint64_t>(bytes, 16), number_at<uint64_t>(bytes, 24)};
  const auto opened = Sidecar::parse(store::copy_bytes(store::as_bytes(bytes)),
                                     static_cast<SidecarKind>(number_at<uint32_t>(bytes, 32)), fingerprint, sections);
  if (!opened) return false;
  for (size_t i = 0; i < sections; ++i) {
    store::crc32c(store::as_bytes(opened->section(i)));
    const auto ends = opened->array<uint64_t>(i);
    if (!ends) continue;
    const TextView texts(opened->section((i + 1) % sections), *ends);
    if (!texts.valid()) continue;
    for (size_t k = 0; k < texts.size(); ++k) store::crc32c(store::as_bytes(texts[k]));
  }
  return true;
}

}  // namespace

const std::vector<NamedTarget>& index_targets() {
  static const std::vector<NamedTarget> all = {
      {"braces", braces}, {"extents", extents}, {"labels", labels}, {"sidecar", sidecar}};
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
