#include "checkpoint/formats/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "store/file.h"

namespace tessera::checkpoint {
namespace {

using store::ZipArchive;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY", kSuffix = ".npy";
constexpr size_t kMaxNpyRank = 32;
[[noreturn]] void fail(const std::string& name, const std::string& what, const std::string& where) {
  throw data_error(fmt::format("the array `{}` {}", name, what), where);
}

// Of several for one type the first is written.
constexpr std::pair<std::string_view, DType> kDescrs[] = {
    {"<f4", DType::kF32}, {"<f8", DType::kF64}, {"<f2", DType::kF16}, {"|V2", DType::kBF16}, {"<V2", DType::kBF16},
    {"<i4", DType::kI32}, {"<i8", DType::kI64}, {"<u4", DType::kU32}, {"<u8", DType::kU64},  {"<i2", DType::kI16},
    {"<u2", DType::kU16}, {"|i1", DType::kI8},  {"|u1", DType::kU8},  {"|b1", DType::kBool}};

std::optional<DType> to_dtype(std::string_view descr) {
  for (const auto& [text, dtype] : kDescrs) {
    if (text == descr) return dtype;
  }
  return {};
}

std::string_view to_descr(DType dtype) {
  for (const auto& [text, known] : kDescrs) {
    if (known == dtype) return text;
  }
  TESSERA_CHECK(false, "{} in an .npz file", dtype_name(dtype));
}

struct NpyHeader {
  std::string descr;
  bool fortran = false;
  Dims dims;
};

// The dictionary of a header, as numpy writes it: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class NpyHeaderParser {
 public:
  explicit NpyHeaderParser(std::string_view text) : text_(text) {}

  std::optional<NpyHeader> parse() {
    NpyHeader header;
    int seen = 0;
    if (!take('{')) return {};
    while (!take('}')) {
      const std::optional<std::string> key = quoted();
      if (!key || !take(':')) return {};
      if (*key == "descr") {
        const std::optional<std::string> descr = quoted();
        if (!descr) return {};
        header.descr = *descr, seen |= 1;
      } else if (*key == "fortran_order") {
        header.fortran = word("True");
        if (!header.fortran && !word("False")) return {};
        seen |= 2;
      } else if (*key == "shape") {
        if (!shape(header.dims)) return {};
        seen |= 4;
      } else {
        return {};
      }
      take(',');
    }
    return seen == 7 ? std::optional(header) : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool take(char c) {
    skip_spaces();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view wanted) {
    skip_spaces();
    if (!text_.starts_with(wanted)) return false;
    text_.remove_prefix(wanted.size());
    return true;
  }
  std::optional<std::string> quoted() {
    if (!take('\'')) return {};
    const size_t end = text_.find('\'');
    if (end == std::string_view::npos) return {};
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool shape(Dims& dims) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_spaces();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0 || dims.size() == kMaxNpyRank) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      dims.push_back(size);
      take(',');
    }
    return true;
  }

  std::string_view text_;
};

// byte_count, or nothing where it does not fit, or would not if the dimensions of no elements had one: what multiplies some of
// the dimensions relies on that.
std::optional<uint64_t> bytes_of(DType dtype, const Dims& dims) {
  int64_t bytes = element_bytes(dtype);
  bool none = false;
  for (const int64_t size : dims) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return {};
    none |= size == 0;
  }
  return none ? 0 : static_cast<uint64_t>(bytes);
}

std::vector<std::byte> to_c_order(std::span<const std::byte> in, const TensorType& type) {
  const auto element = static_cast<size_t>(element_bytes(type.dtype));
  std::vector<std::byte> out(in.size());
  Dims at(type.dims.size(), 0);
  for (size_t i = 0; i * element < in.size(); ++i) {
    // `at` counts in C's order; Fortran's first index runs fastest.
    uint64_t from = 0;
    for (size_t d = at.size(); d-- > 0;) from = from * static_cast<uint64_t>(type.dims[d]) + static_cast<uint64_t>(at[d]);
    std::memcpy(out.data() + i * element, in.data() + from * element, element);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < type.dims[d]) break;
      at[d] = 0;
    }
  }
  return out;
}

// Magic, version, and the header's length.
struct Preamble {
  size_t begin = 0, end = 0;  // of the header
};
Preamble preamble(const std::string& name, std::string_view text, const std::string& where) {
  if (text.size() < 10 || !text.starts_with(kMagic) || text[6] < 1 || text[6] > 3) fail(name, "is no .npy file", where);
  const size_t width = text[6] == 1 ? 2 : 4;
  uint32_t length = 0;
  if (text.size() < 8 + width) fail(name, "ends early", where);
  std::memcpy(&length, text.data() + 8, width);
  return {8 + width, 8 + width + length};
}

struct Described {
  TensorType type;
  bool fortran = false;
  size_t start = 0;  // of the elements
};
// What the first bytes of a .npy file of `size` bytes say.
Described describe(const std::string& name, std::string_view text, uint64_t size, const std::string& where) {
  const auto [begin, end] = preamble(name, text, where);
  if (end > text.size()) fail(name, "ends early", where);
  std::optional<NpyHeader> header = NpyHeaderParser(text.substr(begin, end - begin)).parse();
  if (!header) fail(name, "has a header that numpy did not write", where);
  const std::optional<DType> dtype = to_dtype(header->descr);
  if (!dtype) fail(name, fmt::format("has elements of the kind `{}`, which is not known here", header->descr), where);
  Described array{{*dtype, std::move(header->dims)}, header->fortran, end};
  const std::optional<uint64_t> bytes = bytes_of(*dtype, array.type.dims);
  if (bytes != size - end) fail(name, fmt::format("is {} and has {} bytes", to_string(array.type), size - end), where);
  return array;
}

// Of an array that is not unpacked.
TensorType type_of(const ZipArchive& archive, uint64_t index, const std::string& name, const std::string& where) {
  // NumPy's own are of 118 bytes, or 64 more where there are many dimensions, and it reads none of more than 10,000.
  constexpr size_t kUsual = 256, kMaxLength = 16384;
  const auto text_of = [](const std::vector<std::byte>& bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::vector<std::byte> head = archive.head(index, kUsual);
  const size_t end = preamble(name, text_of(head), where).end;
  if (end > kMaxLength) fail(name, "has a header that numpy did not write", where);
  if (end > head.size()) head = archive.head(index, end);
  return describe(name, text_of(head), archive.unpacked_size(index), where).type;
}

struct ZipDiscarder {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};

// Without ".npy"; empty for entries that are no arrays.
std::string array_name(const ZipArchive& archive, uint64_t index) {
  const std::string name = archive.name(index);
  return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : std::string();
}

[[noreturn]] void none_begins_with(const std::string& prefix, const ZipArchive& archive, const std::string& path) {
  std::set<std::string> roots;
  for (uint64_t i = 0; i < archive.size(); ++i) {
    const std::string name = array_name(archive, i);
    if (!name.empty()) roots.insert(name.substr(0, name.find('/')));
  }
  throw data_error(roots.empty() ? "holds no arrays" : fmt::format("holds no array whose name begins with `{}`", prefix), path,
                   roots.empty() ? "" : fmt::format("its names begin with {}", fmt::join(roots, ", ")));
}

// The arrays whose names begin so.
std::vector<uint64_t> entries_with(const ZipArchive& archive, const std::string& prefix, const std::string& path) {
  std::vector<uint64_t> entries;
  std::set<std::string> names;
  for (uint64_t i = 0; i < archive.size(); ++i) {
    const std::string name = array_name(archive, i);
    if (name.empty() || !name.starts_with(prefix)) continue;
    if (!names.insert(name).second) fail(name, "is there twice", path);
    entries.push_back(i);
  }
  return entries;
}

// The header before an array's elements, padded so that they begin at a multiple of 64 bytes, as numpy has it.
std::string npy_header(const TensorType& type) {
  const std::string_view comma = type.dims.size() == 1 ? "," : "";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", to_descr(type.dtype),
                                 fmt::join(type.dims, ", "), comma);
  constexpr size_t kBefore = 10;  // magic, version, length
  text.append(63 - (kBefore + text.size()) % 64, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + text;
}

// An archive being written. What was added stays in memory of the caller until finish().
class ArchiveWriter {
 public:
  explicit ArchiveWriter(const std::string& path) : path_(path) {
    int code = 0;
    archive_.reset(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
    if (!archive_) throw store::IoError(errno, "write", path);
  }

  void add(const std::string& name, std::span<const std::byte> file) {
    zip_source_t* source = zip_source_buffer(archive_.get(), file.data(), file.size(), 0);
    const zip_int64_t added = zip_file_add(archive_.get(), name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (added < 0) {
      zip_source_free(source);
      fail();
    }
    const auto index = static_cast<zip_uint64_t>(added);
    // 1980: the earliest time that a zip archive can say.
    constexpr zip_uint16_t kTime = 0, kDate = 1 << 5 | 1;
    if (zip_set_file_compression(archive_.get(), index, ZIP_CM_STORE, 0) != 0) fail();
    if (zip_file_set_dostime(archive_.get(), index, kTime, kDate, 0) != 0) fail();
  }

  void finish() {
    if (zip_close(archive_.get()) != 0) fail();
    static_cast<void>(archive_.release());  // zip_close freed it
    store::local_files().append(path_)->sync();
  }

 private:
  [[noreturn]] void fail() { throw store::IoError(zip_error_code_system(zip_get_error(archive_.get())), "write", path_); }

  std::string path_;
  std::unique_ptr<zip_t, ZipDiscarder> archive_;
};

}  // namespace

NpzArray parse_npy(std::string name, std::vector<std::byte> file, const std::string& where) {
  Described array = describe(name, {reinterpret_cast<const char*>(file.data()), file.size()}, file.size(), where);
  NpzArray out{std::move(name), std::move(array.type), {}};
  if (array.fortran && out.type.rank() > 1) {
    out.data = to_c_order(std::span(file).subspan(array.start), out.type);
  } else {
    file.erase(file.begin(), file.begin() + static_cast<ptrdiff_t>(array.start));
    out.data = std::move(file);
  }
  return out;
}

NpzFile::NpzFile(const std::string& path, const std::vector<std::string>& prefixes)
    : path_(path), archive_(path, "an .npz file", "array") {
  for (const std::string& prefix : prefixes) {
    const std::vector<uint64_t> found = entries_with(archive_, prefix, path);
    if (found.empty()) continue;
    archive_.check_sizes(found);
    for (const uint64_t i : found) {
      std::string name = array_name(archive_, i);
      TensorType type = type_of(archive_, i, name, path);
      name.erase(0, prefix.size());
      entries_.push_back({std::move(name), std::move(type), i});
    }
    return;
  }
  none_begins_with(prefixes.back(), archive_, path);
}

NpzArray NpzFile::read(const Entry& entry) const { return parse_npy(entry.name, archive_.bytes(entry.index), path_); }

std::vector<NpzArray> read_npz(const std::string& path, const std::vector<std::string>& prefixes) {
  const NpzFile file(path, prefixes);
  std::vector<NpzArray> arrays;
  arrays.reserve(file.entries().size());
  for (const NpzFile::Entry& entry : file.entries()) arrays.push_back(file.read(entry));
  return arrays;
}

void write_npz(const std::string& path, const std::vector<NpzArray>& arrays) {
  std::vector<std::vector<std::byte>> files;
  for (const NpzArray& array : arrays) {
    const std::string header = npy_header(array.type);
    const auto* begin = reinterpret_cast<const std::byte*>(header.data());
    files.emplace_back(begin, begin + header.size());
    files.back().insert(files.back().end(), array.data.begin(), array.data.end());
  }
  store::write_atomic(store::local_files(), path, [&](const std::string& temporary) {
    ArchiveWriter archive(temporary);
    for (size_t i = 0; i < arrays.size(); ++i) archive.add(arrays[i].name + std::string(kSuffix), files[i]);
    archive.finish();
  });
}

}  // namespace tessera::checkpoint
