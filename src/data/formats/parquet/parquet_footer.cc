#include "data/formats/parquet/parquet_footer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <protozero/varint.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "data/formats/bytes/varint.h"

namespace tessera::data {
namespace {

constexpr int64_t kMaxFooter = int64_t{256} << 20;
constexpr int kMaxThriftDepth = 64;  // Thrift's own bound

// Types of Thrift's compact protocol.
enum ThriftType : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12
};

// Reads off the front; everything returns false where the bytes are wrong.
class Thrift {
 public:
  explicit Thrift(std::string_view bytes) : in_(bytes) {}

  // The next field of a struct whose last was `id`; kStop at its end.
  bool field(int64_t& id, uint8_t& type) {
    uint8_t head = 0;
    if (!byte(head)) return false;
    type = head & 15;
    if (type == kStop) return true;
    if (head >> 4 != 0) return id += head >> 4, true;
    return zigzag(id);
  }
  bool list(uint64_t& count, uint8_t& type) {
    uint8_t head = 0;
    if (!byte(head)) return false;
    type = head & 15;
    count = head >> 4;
    // Each item takes a byte at least.
    return (count < 15 || take_varint(in_, count)) && count <= in_.size();
  }
  bool zigzag(int64_t& value) {
    uint64_t raw = 0;
    if (!take_varint(in_, raw)) return false;
    value = protozero::decode_zigzag64(raw);
    return true;
  }
  // `in_list`: there a truth value is a byte; in a field its type says it.
  bool skip(uint8_t type, int depth, bool in_list = false) {
    if (depth > kMaxThriftDepth) return false;
    uint64_t number = 0;
    switch (type) {
      case kTrue:
      case kFalse: return !in_list || drop(1);
      case kByte: return drop(1);
      case kI16:
      case kI32:
      case kI64: return take_varint(in_, number);
      case kDouble: return drop(8);
      case kBinary: return take_varint(in_, number) && drop(number);
      case kList:
      case kSet: return skip_list(depth);
      case kMap: return skip_map(depth);
      case kStruct: return skip_struct(depth);
      default: return false;
    }
  }

 private:
  bool byte(uint8_t& value) {
    if (in_.empty()) return false;
    value = static_cast<uint8_t>(in_.front());
    in_.remove_prefix(1);
    return true;
  }
  bool drop(uint64_t bytes) {
    if (bytes > in_.size()) return false;
    in_.remove_prefix(bytes);
    return true;
  }
  bool skip_list(int depth) {
    uint64_t count = 0;
    uint8_t type = 0;
    if (!list(count, type)) return false;
    for (; count > 0; --count) {
      if (!skip(type, depth + 1, true)) return false;
    }
    return true;
  }
  bool skip_map(int depth) {
    uint64_t count = 0;
    uint8_t types = 0;
    if (!take_varint(in_, count) || count > in_.size()) return false;
    if (count > 0 && !byte(types)) return false;
    for (; count > 0; --count) {
      if (!skip(types >> 4, depth + 1, true) || !skip(types & 15, depth + 1, true)) return false;
    }
    return true;
  }
  bool skip_struct(int depth) {
    int64_t id = 0;
    for (uint8_t type = 0;;) {
      if (!field(id, type)) return false;
      if (type == kStop) return true;
      if (!skip(type, depth + 1)) return false;
    }
  }

  std::string_view in_;
};

// A SchemaElement's num_children.
bool read_children(Thrift& in, int64_t& children) {
  constexpr int64_t kNumChildren = 5;
  children = 0;
  int64_t id = 0;
  for (uint8_t type = 0;;) {
    if (!in.field(id, type)) return false;
    if (type == kStop) return true;
    const bool wanted = id == kNumChildren && type == kI32;
    if (!(wanted ? in.zigzag(children) : in.skip(type, 1))) return false;
  }
}

// The elements of a schema stand parents first, each before all its children.
bool read_schema(Thrift& in, size_t& deepest) {
  uint64_t count = 0;
  uint8_t type = 0;
  if (!in.list(count, type) || type != kStruct) return false;
  std::vector<int64_t> open;  // the children that are still to come, of each group around
  for (; count > 0; --count) {
    int64_t children = 0;
    if (!read_children(in, children)) return false;
    while (!open.empty() && open.back() == 0) open.pop_back();
    if (!open.empty()) --open.back();
    if (children > 0) open.push_back(children);
    deepest = std::max(deepest, open.size());
  }
  return true;
}

}  // namespace

std::optional<size_t> parquet_schema_depth(std::string_view footer) {
  constexpr int64_t kSchema = 2;
  Thrift in(footer);
  size_t deepest = 0;
  int64_t id = 0;
  // A field may stand twice; then the last one counts, and all are looked at.
  for (uint8_t type = 0;;) {
    if (!in.field(id, type)) return std::nullopt;
    if (type == kStop) return deepest;
    if (!(id == kSchema && type == kList ? read_schema(in, deepest) : in.skip(type, 1))) return std::nullopt;
  }
}

void check_parquet_footer(const std::string& path, const store::ReadableFile& file) {
  constexpr int64_t kEnd = 8;  // the footer's length, and PAR1
  const auto fail = [&](const std::string& what) {
    throw data_error(fmt::format("`{}`: cannot be read as Parquet: {}", path, what), {},
                     "the file is damaged, was not copied whole or is of another format");
  };
  const int64_t size = file.size();
  std::string end(static_cast<size_t>(kEnd), '\0');
  if (size >= 4 + kEnd) file.read(size - kEnd, std::as_writable_bytes(std::span(end)));
  if (!end.ends_with("PAR1")) fail("it does not end as Parquet files do");
  uint32_t length = 0;
  std::memcpy(&length, end.data(), sizeof length);
  if (length > size - 4 - kEnd) fail(fmt::format("a footer of {} bytes in a file of {}", length, size));
  if (length > kMaxFooter) fail(fmt::format("a footer of {}", human_bytes(length)));
  std::string footer(length, '\0');
  file.read(size - kEnd - length, std::as_writable_bytes(std::span(footer)));
  const auto depth = parquet_schema_depth(footer);
  if (!depth) fail("its footer is damaged");
  if (*depth > kMaxParquetDepth) fail(fmt::format("its schema nests more than {} levels deep", kMaxParquetDepth));
}

}  // namespace tessera::data
