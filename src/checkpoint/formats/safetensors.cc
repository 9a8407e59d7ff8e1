#include "checkpoint/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/formats/safetensors_header.h"
#include "store/encoding/crc32c.h"
#include "store/url.h"

namespace tessera::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kLengthBytes = 8;

std::string encode_length(uint64_t length) {
  std::string bytes(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

uint64_t decode_length(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return length;
}

Error bad_tensor(const std::string& path, const HeaderEntry& entry, const std::string& what) {
  return data_error(fmt::format("`{}` is not a valid safetensors file: {}", path, what), fmt::format("array `{}`", entry.name));
}

// The bytes that dtype and shape ask for; throws when a product on the way does not fit 63 bits.
uint64_t checked_bytes(const std::string& path, const HeaderEntry& entry) {
  int64_t bytes = element_bytes(entry.type.dtype);
  for (const int64_t dim : entry.type.dims) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      throw bad_tensor(path, entry, fmt::format("the shape {} is too large", to_string(entry.type.dims)));
    }
  }
  return static_cast<uint64_t>(bytes);
}

// Arrays must follow each other from the first byte of the data to the last.
void check_coverage(const std::string& path, const std::vector<HeaderEntry>& entries, uint64_t data_bytes) {
  uint64_t position = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin > entry.end || entry.end > data_bytes) {
      throw bad_tensor(path, entry,
                       fmt::format("the data offsets [{}, {}] lie outside the {} bytes of data (a cut-off file?)", entry.begin,
                                   entry.end, data_bytes));
    }
    if (entry.begin != position) {
      throw bad_tensor(path, entry,
                       fmt::format("its data begin at {}, but the array before ends at {}", entry.begin, position));
    }
    const uint64_t bytes = checked_bytes(path, entry);
    if (entry.end - entry.begin != bytes) {
      throw bad_tensor(path, entry,
                       fmt::format("it has {} bytes, but {} needs {}", entry.end - entry.begin, to_string(entry.type), bytes));
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    throw data_error(fmt::format("`{}` is not a valid safetensors file: {} bytes after the last array belong to none", path,
                                 data_bytes - position));
  }
}

void expect_length(uint64_t file_bytes, const std::string& path) {
  if (file_bytes < kLengthBytes) {
    throw data_error(fmt::format("`{}` is not a safetensors file: it has only {} bytes", path, file_bytes));
  }
}

// Of a file that begins so.
uint64_t header_bytes(std::span<const std::byte> begin, uint64_t file_bytes, const std::string& path) {
  const uint64_t length = decode_length(begin);
  if (length > kMaxSafetensorsHeader || length > file_bytes - kLengthBytes) {
    throw data_error(fmt::format("`{}` is damaged or not a safetensors file: a header of {} bytes in a file of {}", path,
                                 length, file_bytes));
  }
  return length;
}

}  // namespace

SafetensorsLayout layout_safetensors(const std::vector<NamedType>& arrays, const Metadata& metadata) {
  SafetensorsLayout layout;
  layout.order.resize(arrays.size());
  std::iota(layout.order.begin(), layout.order.end(), size_t{0});
  std::sort(layout.order.begin(), layout.order.end(), [&](size_t a, size_t b) {
    const int ra = safetensors_rank(arrays[a].type.dtype), rb = safetensors_rank(arrays[b].type.dtype);
    return ra != rb ? ra > rb : arrays[a].name < arrays[b].name;
  });

  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::string text = json.dump();
  text.pop_back();
  std::set<std::string_view> names;
  int64_t position = 0;
  for (const size_t i : layout.order) {
    const NamedType& array = arrays[i];
    TESSERA_CHECK(array.name != "__metadata__" && names.insert(array.name).second, "array `{}`", array.name);
    const int64_t bytes = byte_count(array.type);
    if (text.size() > 1) text += ',';
    text +=
        fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", nlohmann::json(array.name).dump(),
                    safetensors_dtype(array.type.dtype), nlohmann::json(array.type.dims).dump(), position, position + bytes);
    position += bytes;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  layout.header = encode_length(text.size()) + text;
  return layout;
}

FileSum write_safetensors(store::FileSystem& files, const std::string& path, const std::vector<NamedType>& arrays,
                          const std::function<store::Bytes(size_t)>& data_of, const Metadata& metadata) {
  const SafetensorsLayout layout = layout_safetensors(arrays, metadata);
  const auto file = files.create(path);
  FileSum sum;
  const auto put = [&](std::span<const std::byte> bytes) {
    file->write(bytes);
    sum.crc32c = store::crc32c(bytes, sum.crc32c);
    sum.size += static_cast<int64_t>(bytes.size());
  };
  put(store::as_bytes(layout.header));
  for (const size_t i : layout.order) {
    const store::Bytes bytes = data_of(i);
    TESSERA_CHECK(static_cast<int64_t>(bytes.size()) == byte_count(arrays[i].type), "{}: {} has {} bytes", arrays[i].name,
                  to_string(arrays[i].type), bytes.size());
    put(bytes.data);
  }
  file->sync();
  file->close();
  return sum;
}

FileSum write_safetensors(store::FileSystem& files, const std::string& path, const std::vector<TensorView>& tensors,
                          const Metadata& metadata) {
  std::vector<NamedType> arrays;
  arrays.reserve(tensors.size());
  for (const TensorView& tensor : tensors) arrays.push_back({tensor.name, tensor.type});
  return write_safetensors(
      files, path, arrays,
      [&](size_t i) {
        return store::Bytes{nullptr, tensors[i].data};
      },
      metadata);
}

SafetensorsFile SafetensorsFile::open(const std::string& path, store::FileSystem& files) {
  return parse(files.map(path), path);
}

SafetensorsFile SafetensorsFile::open_header(const std::string& path, store::FileSystem& files) {
  const auto file = files.open(path);
  const auto size = static_cast<uint64_t>(file->size());
  expect_length(size, path);
  std::vector<std::byte> begin(kLengthBytes);
  file->read(0, begin);
  std::vector<std::byte> text(header_bytes(begin, size, path));
  file->read(kLengthBytes, text);
  return parse_text(store::as_text(text), size - kLengthBytes - text.size(), {}, path);
}

SafetensorsFile SafetensorsFile::parse(store::Bytes bytes, const std::string& path) {
  expect_length(bytes.size(), path);
  const uint64_t length = header_bytes(bytes.data, bytes.size(), path);
  const std::span<const std::byte> data = bytes.data.subspan(kLengthBytes + length);
  SafetensorsFile file = parse_text(store::as_text(bytes.data.subspan(kLengthBytes, length)), data.size(), data, path);
  file.bytes_ = std::move(bytes);
  return file;
}

SafetensorsFile SafetensorsFile::parse_text(std::string_view text, uint64_t data_bytes, std::span<const std::byte> data,
                                            const std::string& path) {
  if (!text.starts_with('{')) {
    throw data_error(fmt::format("`{}` is not a safetensors file: its header does not begin with {{", path));
  }
  Header header = parse_header(text, path);
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  check_coverage(path, header.entries, data_bytes);

  SafetensorsFile file;
  file.path_ = path;
  file.size_ = static_cast<int64_t>(kLengthBytes + text.size() + data_bytes);
  file.metadata_ = std::move(header.metadata);
  file.tensors_.reserve(header.entries.size());
  for (HeaderEntry& entry : header.entries) {
    file.index_.emplace(entry.name, file.tensors_.size());
    const auto own = data.empty() ? data : data.subspan(entry.begin, entry.end - entry.begin);
    file.tensors_.push_back({std::move(entry.name), std::move(entry.type), own});
  }
  return file;
}

std::vector<SafetensorsFile> open_headers(const std::vector<std::string>& paths, store::FileSystem& files) {
  std::vector<SafetensorsFile> headers(paths.size());
  const auto count = static_cast<int64_t>(paths.size());
  const bool waits = !paths.empty() && store::is_bucket(paths[0]);
  parallel_for(count, waits ? thread_count(0, count) : 1, [&](int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    headers[at] = SafetensorsFile::open_header(paths[at], files);
  });
  return headers;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace tessera::checkpoint
