#pragma once
// The index of a source on disk, so that the second start need not list or scan. A cache: what is missing, damaged, of another
// version or out of date is made again. Format: docs/formats/data_index.md.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "store/encoding/bytes.h"

namespace tessera::data {

enum class SidecarKind : uint32_t { kFolderIndex = 1, kShardIndex = 2, kObjectIndex = 3 };

// <cache directory>/index/<hash of both>.index; empty when nothing is cached. `root` is an absolute path, or several.
std::string sidecar_path(std::string_view call, std::string_view root);

struct SidecarSection {
  std::string_view bytes;
  // Whether open() reads and checks it; else whoever uses it must.
  bool checked = true;
};

template <class T>
SidecarSection section_of(const std::vector<T>& values) {
  return {{reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}};
}

// Writes the whole file or nothing. Where it cannot be written, this gives false; the first time in a process a note says why.
bool write_sidecar(const std::string& path, SidecarKind kind, const Hash128& fingerprint,
                   const std::vector<SidecarSection>& sections);

// The same as bytes, for a place that is no file of this machine.
std::string sidecar_bytes(SidecarKind kind, const Hash128& fingerprint, const std::vector<SidecarSection>& sections);

// A mapped sidecar.
class Sidecar {
 public:
  // Nothing when there is none at `path`, or one that is damaged, of another kind, version or fingerprint, or has not
  // `sections` sections; or one that others could have written (store/local/private_directory.h), after a note.
  static std::optional<Sidecar> open(const std::string& path, SidecarKind kind, const Hash128& fingerprint, size_t sections);
  // The same for bytes in hand.
  static std::optional<Sidecar> parse(store::Bytes bytes, SidecarKind kind, const Hash128& fingerprint, size_t sections);
  // Call it after a section was used: false where a part of the file could not be read. check() throws store::IoError then.
  bool readable() const { return file_.readable(); }
  void check() const { file_.check(); }

  // Sections begin at multiples of 64 bytes.
  std::string_view section(size_t i) const { return sections_[i]; }
  // Nothing when the section is no whole number of T.
  template <class T>
  std::optional<std::span<const T>> array(size_t i) const {
    if (sections_[i].size() % sizeof(T) != 0) return std::nullopt;
    return std::span(reinterpret_cast<const T*>(sections_[i].data()), sections_[i].size() / sizeof(T));
  }

 private:
  store::Bytes file_;
  std::vector<std::string_view> sections_;
};

// Texts end to end, with their ends: for names and paths by the million.
struct TextList {
  std::string text;
  std::vector<uint64_t> ends;
  void add(std::string_view item) {
    text += item;
    ends.push_back(text.size());
  }
};

// The same, wherever it lies.
class TextView {
 public:
  TextView() = default;
  TextView(std::string_view text, std::span<const uint64_t> ends) : text_(text), ends_(ends) {}
  TextView(const TextList& list) : text_(list.text), ends_(list.ends) {}
  // Whether every item lies in the text.
  bool valid() const;
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    return text_.substr(begin, ends_[i] - begin);
  }

 private:
  std::string_view text_;
  std::span<const uint64_t> ends_;
};

}  // namespace tessera::data
