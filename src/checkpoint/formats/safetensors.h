#pragma once
// The safetensors file format (https://huggingface.co/docs/safetensors): eight bytes of header length, a JSON header, the
// arrays. docs/formats/checkpoint.md has the layout and a worked example.
//
// A file is input from outside: every length is checked before it is used, nothing in it is ever taken as a path, and every
// mistake is a data error that names the file and the array.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "store/encoding/bytes.h"
#include "store/file.h"

namespace tessera::checkpoint {

// A named array in host memory: row-major, little-endian, `data.size() == byte_count(type)`. The memory is borrowed.
struct TensorView {
  std::string name;
  TensorType type;
  std::span<const std::byte> data;
};

using Metadata = std::map<std::string, std::string>;

// What was written, for a list of files with their checksums.
struct FileSum {
  int64_t size = 0;
  uint32_t crc32c = 0;
};

// Writes the same bytes as the format's own library: arrays by descending dtype (the widest first, so that all are aligned),
// then by name. The file is synced. Throws store::IoError; a name given twice is our own bug.
FileSum write_safetensors(store::FileSystem& files, const std::string& path, const std::vector<TensorView>& tensors,
                          const Metadata& metadata = {});

// The same for arrays that need not be in memory together: `data_of(i)` gives the bytes of array i when its turn comes, each
// once, in the order of the file. They are let go before the next are asked for.
FileSum write_safetensors(store::FileSystem& files, const std::string& path, const std::vector<NamedType>& arrays,
                          const std::function<store::Bytes(size_t)>& data_of, const Metadata& metadata = {});

// The header alone (length, JSON, padding) of a file with these arrays, and the order in which their data follow it.
struct SafetensorsLayout {
  std::string header;
  std::vector<size_t> order;  // indices into the arrays given
};
SafetensorsLayout layout_safetensors(const std::vector<NamedType>& arrays, const Metadata& metadata = {});

// A file opened for reading. The arrays are views into it: they live as long as this object or a copy of `bytes()` does. Their
// address need not be a multiple of the element size when another program wrote the file: copy elements out, don't cast.
class SafetensorsFile {
 public:
  // Maps the file and checks all of its header; reads no array data. Throws a data error for anything but a well-formed file of
  // known dtypes whose arrays cover the data exactly.
  static SafetensorsFile open(const std::string& path, store::FileSystem& files = store::local_files());
  // The same by the header alone, which is all that is read: the arrays have no data, and bytes() is empty.
  static SafetensorsFile open_header(const std::string& path, store::FileSystem& files);
  // The same for bytes already in memory; `path` is for messages.
  static SafetensorsFile parse(store::Bytes bytes, const std::string& path);

  // In the order of their data.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // bytes of the file
  // bytes().check() says whether what was read of the arrays is the file's.
  const store::Bytes& bytes() const { return bytes_; }

  // nullptr when there is no array of that name.
  const TensorView* find(std::string_view name) const;

 private:
  // `data` are those after the header, or nothing where they are not read.
  static SafetensorsFile parse_text(std::string_view text, uint64_t data_bytes, std::span<const std::byte> data,
                                    const std::string& path);

  std::string path_;
  int64_t size_ = 0;
  store::Bytes bytes_;
  std::vector<TensorView> tensors_;
  Metadata metadata_;
  std::map<std::string, size_t, std::less<>> index_;
};

// open_header() of each: of objects in a bucket on several threads, which wait for its answers.
std::vector<SafetensorsFile> open_headers(const std::vector<std::string>& paths, store::FileSystem& files);

// A header longer than this is refused, as the format's own library does.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;
// More dimensions than any array here has.
inline constexpr size_t kMaxSafetensorsRank = 32;

}  // namespace tessera::checkpoint
