#include "monitor/wandb/record_log.h"

#include <zlib.h>

namespace tessera::monitor {
namespace {

constexpr std::string_view kHeader(":W&B\xe1\xbe\x00", 7);
constexpr size_t kBlock = 32768, kFrame = 7;
constexpr int kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4;  // the types

uint32_t checksum(int type, std::string_view data) {
  const auto first = static_cast<Bytef>(type);
  const uLong begun = crc32(0, &first, 1);
  return static_cast<uint32_t>(crc32(begun, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
}

void add_little_endian(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace

std::string record_log_header() { return std::string(kHeader); }

void add_log_record(std::string& out, int64_t offset, std::string_view record) {
  size_t left = kBlock - static_cast<size_t>(offset) % kBlock;
  bool first = true, last = false;
  do {
    if (left < kFrame) {
      out.append(left, '\0');
      left = kBlock;
    }
    const std::string_view data = record.substr(0, left - kFrame);
    record.remove_prefix(data.size());
    last = record.empty();
    const int type = first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle);
    add_little_endian(out, checksum(type, data), 4);
    add_little_endian(out, static_cast<uint32_t>(data.size()), 2);
    add_little_endian(out, static_cast<uint32_t>(type), 1);
    out += data;
    left = kBlock;
    first = false;
  } while (!last);
}

RecordLogReader::RecordLogReader(std::string_view file)
    : file_(file.starts_with(kHeader) ? file : std::string_view()), at_(kHeader.size()) {}

std::optional<RecordLogReader::Fragment> RecordLogReader::next_part() {
  const size_t left = kBlock - at_ % kBlock;
  if (left < kFrame) at_ += left;
  if (at_ + kFrame > file_.size()) return std::nullopt;
  const std::string_view frame = file_.substr(at_, kFrame);
  const size_t length = little_endian(frame.substr(4, 2));
  const int type = static_cast<uint8_t>(frame[6]);
  if (at_ + kFrame + length > file_.size() || at_ % kBlock + kFrame + length > kBlock) return std::nullopt;
  const Fragment part{type, file_.substr(at_ + kFrame, length)};
  if (type < kFull || type > kLast || checksum(type, part.data) != little_endian(frame.substr(0, 4))) return std::nullopt;
  at_ += kFrame + length;
  return part;
}

std::optional<std::string> RecordLogReader::next() {
  std::string record;
  for (bool begun = false;; begun = true) {
    const std::optional<Fragment> part = next_part();
    const bool starts = part && (part->type == kFull || part->type == kFirst);
    if (!part || starts == begun) {
      file_ = {};  // whatever follows
      return std::nullopt;
    }
    record += part->data;
    if (part->type == kFull || part->type == kLast) return record;
  }
}

}  // namespace tessera::monitor
