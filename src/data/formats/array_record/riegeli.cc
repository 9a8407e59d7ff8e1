#include "data/formats/array_record/riegeli.h"

#include <highwayhash/c_bindings.h>

#include <algorithm>
#include <cstring>

namespace tessera::data {
namespace {

// "Riegeli/records\n" twice.
alignas(32) constexpr HHKey kKey = {0x2f696c6567656952, 0x0a7364726f636572, 0x2f696c6567656952, 0x0a7364726f636572};

uint64_t word(std::string_view bytes, size_t offset) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void append(std::string& out, uint64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }

}  // namespace

uint64_t riegeli_hash(std::string_view bytes) { return HighwayHash64(kKey, bytes.data(), bytes.size()); }

bool parse_riegeli_header(std::string_view bytes, RiegeliHeader& header) {
  if (word(bytes, 0) != riegeli_hash(bytes.substr(8, kRiegeliHeader - 8))) return false;
  header = {word(bytes, 8), word(bytes, 16), bytes[24], word(bytes, 24) >> 8, word(bytes, 32)};
  return true;
}

std::string riegeli_header(const RiegeliHeader& header) {
  std::string rest, out;
  append(rest, header.data_size);
  append(rest, header.data_hash);
  append(rest, header.records << 8 | static_cast<uint8_t>(header.type));
  append(rest, header.decoded_size);
  append(out, riegeli_hash(rest));
  return out + rest;
}

std::string riegeli_block_header(int64_t before, int64_t after) {
  std::string rest, out;
  append(rest, static_cast<uint64_t>(before));
  append(rest, static_cast<uint64_t>(after));
  append(out, riegeli_hash(rest));
  return out + rest;
}

int64_t riegeli_end(int64_t begin, int64_t size) {
  constexpr int64_t kUsable = kRiegeliBlock - kRiegeliBlockHeader;
  const int64_t inside = begin % kRiegeliBlock;
  // What is left of the block where it begins, unless it begins with the block's header.
  const int64_t left = inside == 0 ? 0 : kRiegeliBlock - inside;
  if (size <= left) return begin + size;
  const int64_t more = size - left;
  return begin + left + more + (more + kUsable - 1) / kUsable * kRiegeliBlockHeader;
}

std::string read_riegeli(const store::ReadableFile& file, int64_t begin, int64_t end) {
  std::string bytes(static_cast<size_t>(end - begin), '\0');
  file.read(begin, std::as_writable_bytes(std::span(bytes)));
  size_t to = 0;
  for (int64_t at = begin; at < end;) {
    if (at % kRiegeliBlock == 0) at += kRiegeliBlockHeader;
    const int64_t stop = std::min(end, at / kRiegeliBlock * kRiegeliBlock + kRiegeliBlock);
    if (at >= stop) break;
    std::memmove(bytes.data() + to, bytes.data() + (at - begin), static_cast<size_t>(stop - at));
    to += static_cast<size_t>(stop - at);
    at = stop;
  }
  bytes.resize(to);
  return bytes;
}

}  // namespace tessera::data
