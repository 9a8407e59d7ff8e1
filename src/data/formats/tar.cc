#include "data/formats/tar.h"

#include <charconv>
#include <cstring>

#include "data/formats/bytes/fail_at.h"

namespace tessera::data {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kMaxNameData = 1 << 20;  // of the data of headers with names
constexpr int64_t kMaxEnd = 1 << 20;       // of zeros: tar fills records, of 10 KiB or what its -b says

// Fields of a header: offset and length.
struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kOwner{108, 8}, kGroup{116, 8}, kSize{124, 12}, kTime{136, 12}, kChecksum{148, 8},
    kMagic{257, 6}, kVersion{263, 2}, kPrefix{345, 155};
constexpr size_t kType = 156;

std::string_view field(std::string_view header, Field f) { return header.substr(f.at, f.size); }

std::string_view text(std::string_view bytes) { return bytes.substr(0, bytes.find('\0')); }

// Octal digits between spaces, or, where the first bit is set, a number in base 256 (GNU).
std::optional<int64_t> number(std::string_view bytes) {
  if (static_cast<uint8_t>(bytes[0]) & 0x80) {
    uint64_t value = static_cast<uint8_t>(bytes[0]) & 0x3f;
    for (const char c : bytes.substr(1)) {
      if (value >> 54) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(c);
    }
    return static_cast<int64_t>(value);
  }
  const size_t begin = bytes.find_first_not_of(' ');
  if (begin == std::string_view::npos) return 0;
  bytes = text(bytes.substr(begin));
  bytes = bytes.substr(0, bytes.find(' '));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), value, 8);
  if (bytes.empty()) return 0;
  if (error != std::errc{} || end != bytes.data() + bytes.size() || value < 0) return std::nullopt;
  return value;
}

int64_t header_checksum(std::string_view header) {
  int64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    const bool blank = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += blank ? ' ' : static_cast<uint8_t>(header[i]);
  }
  return sum;
}

// "27 path=some/name\n…" -> values of path and size.
struct PaxRecords {
  std::optional<std::string> path;
  std::optional<int64_t> size;
};

std::optional<PaxRecords> parse_pax(std::string_view records) {
  PaxRecords out;
  while (!records.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<size_t>(end - records.data());
    if (error != std::errc{} || length <= digits + 2 || length > records.size() || records[length - 1] != '\n')
      return std::nullopt;
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const size_t equals = record.find('=');
    if (records[digits] != ' ' || equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") out.path = std::string(value);
    if (key == "size") {
      int64_t size = 0;
      const auto [stop, bad] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (bad != std::errc{} || stop != value.data() + value.size() || size < 0) return std::nullopt;
      out.size = size;
    }
    records.remove_prefix(length);
  }
  return out;
}

std::string plain_name(std::string_view header) {
  const std::string_view name = text(field(header, kName)), prefix = text(field(header, kPrefix));
  const bool ustar = field(header, kMagic) == std::string_view("ustar\0", 6);
  return ustar && !prefix.empty() ? fmt::format("{}/{}", prefix, name) : std::string(name);
}

void put(std::string& header, Field f, std::string_view value) {
  header.replace(f.at, std::min(value.size(), f.size), value.substr(0, f.size));
}

std::string octal(int64_t value, size_t digits) { return fmt::format("{:0{}o}", value, digits); }

std::string block(std::string_view name, std::string_view prefix, int64_t size, char type) {
  constexpr int64_t kMaxOctal = (int64_t{1} << 33) - 1;
  std::string header(static_cast<size_t>(kBlock), '\0');
  put(header, kName, name);
  put(header, kPrefix, prefix);
  put(header, kMode, "0000644");
  put(header, kOwner, "0000000");
  put(header, kGroup, "0000000");
  put(header, kSize, octal(std::min(size, kMaxOctal), 11));
  put(header, kTime, "00000000000");
  header[kType] = type;
  put(header, kMagic, std::string_view("ustar\0", 6));
  put(header, kVersion, "00");
  put(header, kChecksum, octal(header_checksum(header), 6) + std::string("\0 ", 2));
  return header;
}

std::string pax_record(std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

// An archive ends with zeros. So does what is read of one where a disk lost a block, or a download did not come to its end.
void check_end(const std::string& path, Window& window, int64_t offset) {
  const int64_t left = window.file_size() - offset;
  if (left <= kMaxEnd && window.get(offset, left).find_first_not_of('\0') == std::string_view::npos) return;
  fail_at(path, offset, fmt::format("zeros in the place of a member, and {} bytes behind it", left - kBlock),
          "the file is damaged or was not copied whole: copy it again; archives that were joined have to be written as one");
}

}  // namespace

std::optional<TarMember> read_tar_member(const std::string& path, Window& window, int64_t offset) {
  TarMember member;
  member.header = offset;
  PaxRecords pax;
  for (std::optional<std::string> gnu_name;;) {
    if (offset == window.file_size()) {
      if (offset != member.header) fail_at(path, offset, "a member without its header");
      return std::nullopt;
    }
    if (!window.has(offset, kBlock)) fail_at(path, offset, "a member's header is cut short");
    const std::string header(window.get(offset, kBlock));
    if (header.find_first_not_of('\0') == std::string::npos) {
      check_end(path, window, offset);
      return std::nullopt;
    }
    const auto sum = number(field(header, kChecksum));
    if (!sum || *sum != header_checksum(header)) {
      fail_at(path, offset, offset == 0 ? "this is no tar archive: wrong checksum" : "wrong checksum of a member's header",
              offset == 0 ? "compressed archives must be uncompressed first" : kCopyAgain);
    }
    const char type = header[kType];
    const auto own_size = number(field(header, kSize));
    const bool extra = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const int64_t size = extra || !pax.size ? own_size.value_or(-1) : *pax.size;
    const int64_t data = offset + kBlock;
    if (size < 0 || !window.has(data, size)) fail_at(path, offset, "a member is cut short");
    const int64_t end = std::min(data + (size + kBlock - 1) / kBlock * kBlock, window.file_size());
    if (!extra) {
      member.data = data, member.size = size, member.end = end;
      member.name = pax.path ? *pax.path : gnu_name ? *gnu_name : plain_name(header);
      member.regular = type == '0' || type == '\0' || type == '7';
      return member;
    }
    if (size > kMaxNameData) fail_at(path, offset, fmt::format("a header of {} bytes", size));
    const std::string_view content = window.get(data, size);
    if (type == 'L') gnu_name = std::string(text(content));
    if (type == 'x') {
      const auto records = parse_pax(content);
      if (!records) fail_at(path, offset, "a pax header that cannot be read");
      pax = *records;
    }
    offset = end;
  }
}

std::string tar_header(std::string_view name, int64_t size) {
  if (name.size() <= kName.size) return block(name, {}, size, '0');
  const size_t slash = name.rfind('/', kPrefix.size);
  if (slash != std::string_view::npos && slash > 0 && name.size() - slash - 1 <= kName.size && slash + 1 < name.size())
    return block(name.substr(slash + 1), name.substr(0, slash), size, '0');
  const std::string records = pax_record("path", name);
  const auto length = static_cast<int64_t>(records.size());
  return block("././@PaxHeader", {}, length, 'x') + records + tar_padding(length) + block(name, {}, size, '0');
}

std::string tar_padding(int64_t size) { return std::string(static_cast<size_t>((kBlock - size % kBlock) % kBlock), '\0'); }

std::string tar_end() { return std::string(2 * static_cast<size_t>(kBlock), '\0'); }

}  // namespace tessera::data
