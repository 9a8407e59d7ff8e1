#include "data/formats/mat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/formats/deflate.h"

namespace tessera::data {
namespace {

constexpr size_t kMatHeader = 128, kMaxMatBytes = size_t{64} << 20;
constexpr size_t kMaxStructs = 1 << 20;

// Data types of elements, and classes of arrays.
enum ElementType : uint32_t {
  kInt8 = 1,
  kUint8 = 2,
  kInt16 = 3,
  kUint16 = 4,
  kInt32 = 5,
  kUint32 = 6,
  kSingleElement = 7,
  kDoubleElement = 9,
  kInt64 = 12,
  kUint64 = 13,
  kMatrix = 14,
  kCompressed = 15,
  kUtf8 = 16,
  kUtf16 = 17
};
enum ArrayClass : uint32_t { kStructClass = 2, kCharClass = 4, kFirstNumber = 6, kLastNumber = 15 };

[[noreturn]] void damaged() { throw data_error("it is damaged or cut short"); }

template <class T>
T load_number(std::string_view bytes, size_t at = 0) {
  T value;
  if (bytes.size() < sizeof value || at > bytes.size() - sizeof value) damaged();
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Element {
  uint32_t type = 0;
  std::string_view data;
};

// The element that `rest` begins with, taken off it with what fills it up to 8 bytes. Packed ones are not filled up.
Element take_element(std::string_view& rest) {
  const auto tag = load_number<uint32_t>(rest);
  Element out;
  size_t size = 0, at = 0;
  if (tag >> 16 != 0) {  // four bytes at most, in the tag itself
    out.type = tag & 0xffff, size = tag >> 16, at = 4;
    if (size > 4) damaged();
  } else {
    out.type = tag, size = load_number<uint32_t>(rest, 4), at = 8;
  }
  if (rest.size() < at || size > rest.size() - at) damaged();
  out.data = rest.substr(at, size);
  const size_t filled = at == 4 ? 8 : out.type == kCompressed ? at + size : at + (size + 7) / 8 * 8;
  rest.remove_prefix(std::min(filled, rest.size()));
  return out;
}

// What every array begins with; `rest` is what it holds. Empty cells of structs are arrays without any of that: class 0.
struct Array {
  uint32_t of = 0;  // ArrayClass
  std::vector<int32_t> dims;
  std::string_view name, rest;

  size_t count() const {
    size_t count = 1;
    for (const int32_t dim : dims) {
      if (dim < 0 || (dim > 0 && count > kMaxMatBytes / static_cast<size_t>(dim))) damaged();
      count *= static_cast<size_t>(dim);
    }
    return count;
  }
};

Array parse_array(std::string_view data) {
  Array out;
  if (data.empty()) return out;
  const Element flags = take_element(data), dims = take_element(data), name = take_element(data);
  if (flags.type != kUint32 || flags.data.size() != 8 || dims.type != kInt32 || dims.data.size() % 4 != 0 || name.type != kInt8)
    damaged();
  out.of = load_number<uint32_t>(flags.data) & 0xff;
  for (size_t at = 0; at < dims.data.size(); at += 4) out.dims.push_back(load_number<int32_t>(dims.data, at));
  out.name = name.data;
  out.rest = data;
  return out;
}

void put_utf8(uint32_t point, std::string& out) {
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xc0 | point >> 6);
    out += static_cast<char>(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    out += static_cast<char>(0xe0 | point >> 12);
    out += static_cast<char>(0x80 | (point >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (point & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | point >> 18);
    out += static_cast<char>(0x80 | (point >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (point >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (point & 0x3f));
  }
}

// Units of UTF-16; a half of a pair without its other half is U+FFFD.
std::string from_utf16(std::string_view data) {
  std::string out;
  for (size_t at = 0; at + 2 <= data.size(); at += 2) {
    const uint32_t unit = load_number<uint16_t>(data, at);
    uint32_t point = unit;
    if (unit >= 0xd800 && unit < 0xe000) {
      const uint32_t next = at + 4 <= data.size() ? load_number<uint16_t>(data, at + 2) : 0;
      const bool pair = unit < 0xdc00 && next >= 0xdc00 && next < 0xe000;
      point = pair ? 0x10000 + ((unit - 0xd800) << 10) + (next - 0xdc00) : 0xfffd;
      if (pair) at += 2;
    }
    put_utf8(point, out);
  }
  return out;
}

std::string element_text(const Element& element) {
  switch (element.type) {
    case kUtf8: return std::string(element.data);
    case kUint16:
    case kUtf16: return from_utf16(element.data);
    case kInt8:
    case kUint8: {  // Latin-1
      std::string out;
      for (const char c : element.data) put_utf8(static_cast<uint8_t>(c), out);
      return out;
    }
    default: damaged();
  }
}

double number_of(const Element& element) {
  const std::string_view data = element.data;
  switch (element.type) {
    case kInt8: return load_number<int8_t>(data);
    case kUint8: return load_number<uint8_t>(data);
    case kInt16: return load_number<int16_t>(data);
    case kUint16: return load_number<uint16_t>(data);
    case kInt32: return load_number<int32_t>(data);
    case kUint32: return load_number<uint32_t>(data);
    case kSingleElement: return static_cast<double>(load_number<float>(data));
    case kDoubleElement: return load_number<double>(data);
    case kInt64: return static_cast<double>(load_number<int64_t>(data));
    case kUint64: return static_cast<double>(load_number<uint64_t>(data));
    default: damaged();
  }
}

MatValue mat_value(Array array) {
  MatValue out;
  if (array.of == kCharClass) {
    if (array.dims.size() == 2 && (array.dims[0] == 1 || array.count() == 0) && !array.rest.empty())
      out.text = element_text(take_element(array.rest));
  } else if (array.of >= kFirstNumber && array.of <= kLastNumber && array.count() == 1) {
    out.number = number_of(take_element(array.rest));
  }
  return out;
}

std::vector<MatStruct> structs_of(Array array, const std::vector<std::string>& fields) {
  const Element width = take_element(array.rest), names = take_element(array.rest);
  if (width.type != kInt32 || names.type != kInt8) damaged();
  const auto length = load_number<int32_t>(width.data);
  if (length < 1 || names.data.size() % static_cast<size_t>(length) != 0) damaged();
  std::vector<std::string> known;
  for (size_t at = 0; at < names.data.size(); at += static_cast<size_t>(length)) {
    const std::string_view name = names.data.substr(at, static_cast<size_t>(length));
    known.emplace_back(name.substr(0, name.find('\0')));
  }
  std::vector<size_t> place(known.size(), fields.size());  // among those asked for
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto found = std::ranges::find(known, fields[i]);
    if (found == known.end())
      throw data_error(
          fmt::format("its `{}` has no field `{}` but {}", one_line(array.name), fields[i], one_line(join(known, ", "))));
    place[static_cast<size_t>(found - known.begin())] = i;
  }
  const size_t count = array.count();
  if (count > kMaxStructs) throw data_error(fmt::format("it has {} structs", count));
  std::vector<MatStruct> out;
  for (size_t i = 0; i < count; ++i) {
    MatStruct& values = out.emplace_back(fields.size());
    for (const size_t at : place) {
      const Element cell = take_element(array.rest);
      if (cell.type != kMatrix) damaged();
      if (at < fields.size()) values[at] = mat_value(parse_array(cell.data));
    }
  }
  return out;
}

std::vector<MatStruct> find_structs(std::string_view bytes, const std::string& variable,
                                    const std::vector<std::string>& fields) {
  if (bytes.size() < kMatHeader || !bytes.starts_with("MATLAB 5.0 MAT-file"))
    throw data_error(bytes.starts_with("MATLAB 7.3") ? "it is a MAT-file of version 7.3, which is HDF5"
                                                     : "it is no MAT-file of version 5");
  if (bytes.substr(126, 2) != "IM") throw data_error("it is a MAT-file in big-endian order");
  bytes.remove_prefix(kMatHeader);
  while (!bytes.empty()) {
    Element element = take_element(bytes);
    std::string unpacked;
    if (element.type == kCompressed) {
      unpacked = inflate_bytes(element.data, kMaxMatBytes);
      std::string_view rest = unpacked;
      element = take_element(rest);
    }
    if (element.type != kMatrix) continue;
    const Array array = parse_array(element.data);
    if (array.name != variable) continue;
    if (array.of != kStructClass) throw data_error(fmt::format("its `{}` is no array of structs", variable));
    return structs_of(array, fields);
  }
  throw data_error(fmt::format("it has no variable `{}`", variable));
}

}  // namespace

std::vector<MatStruct> read_mat_structs(std::string_view bytes, const std::string& where, const std::string& variable,
                                        const std::vector<std::string>& fields) {
  try {
    if (bytes.size() > kMaxMatBytes) throw data_error(fmt::format("it has {}", human_bytes(static_cast<double>(bytes.size()))));
    return find_structs(bytes, variable, fields);
  } catch (const Error& error) {
    throw data_error("cannot be read as a MAT-file: " + error.message(), where, error.help());
  }
}

}  // namespace tessera::data
