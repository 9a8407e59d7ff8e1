#include "base/text/protobuf_wire.h"
#include "data/formats/array_record/array_record.h"
#include "data/formats/array_record/riegeli.h"
#include "data/formats/bytes/varint.h"

namespace tessera::data {
namespace {

constexpr const char* kOptions = "group_size:1,transpose:false,pad_to_block_boundary:false,uncompressed,max_parallelism:1";

// The data of a chunk of type 'r' without compression.
std::string simple_chunk(const std::vector<std::string_view>& records) {
  std::string sizes;
  for (const std::string_view record : records) put_varint(sizes, record.size());
  std::string data(1, '\0');
  put_varint(data, sizes.size());
  data += sizes;
  for (const std::string_view record : records) data += record;
  return data;
}

uint64_t total(const std::vector<std::string_view>& records) {
  uint64_t sum = 0;
  for (const std::string_view record : records) sum += record.size();
  return sum;
}

}  // namespace

ArrayRecordWriter::ArrayRecordWriter(store::WritableFile& file) : file_(file) { put_chunk('s', {}, 0, 0); }

void ArrayRecordWriter::put_chunk(char type, const std::string& data, uint64_t records, uint64_t decoded_size) {
  const std::string header = riegeli_header({data.size(), riegeli_hash(data), type, records, decoded_size});
  const int64_t begin = position_, end = riegeli_end(begin, static_cast<int64_t>(header.size() + data.size()));
  put(header, begin, end);
  put(data, begin, end);
}

void ArrayRecordWriter::put(std::string_view bytes, int64_t chunk_begin, int64_t chunk_end) {
  while (!bytes.empty()) {
    if (position_ % kRiegeliBlock == 0) {
      file_.write(store::as_bytes(riegeli_block_header(position_ - chunk_begin, chunk_end - position_)));
      position_ += kRiegeliBlockHeader;
    }
    const auto room = static_cast<size_t>(kRiegeliBlock - position_ % kRiegeliBlock);
    const std::string_view part = bytes.substr(0, room);
    file_.write(store::as_bytes(part));
    position_ += static_cast<int64_t>(part.size());
    bytes.remove_prefix(part.size());
  }
}

void ArrayRecordWriter::add(std::string_view record) {
  chunks_.push_back({position_, record.size(), 1});
  put_chunk('r', simple_chunk({record}), 1, record.size());
}

void ArrayRecordWriter::pad() {
  const int64_t inside = position_ % kRiegeliBlock;
  if (inside == 0) return;
  int64_t length = kRiegeliBlock - inside;
  if (length < static_cast<int64_t>(kRiegeliHeader)) length += kRiegeliBlock - kRiegeliBlockHeader;
  put_chunk('p', std::string(static_cast<size_t>(length) - kRiegeliHeader, '\0'), 0, 0);
}

void ArrayRecordWriter::finish() {
  std::vector<std::string> records(1);
  ProtoWriter summary, wrapped;
  summary.integer(1, 1);
  summary.integer(2, static_cast<int64_t>(chunks_.size()));
  summary.integer(3, static_cast<int64_t>(chunks_.size()));
  summary.bytes(4, kOptions);
  wrapped.bytes(1, summary.data());
  records[0] = wrapped.data();
  for (const Chunk& chunk : chunks_) {
    ProtoWriter entry;
    entry.integer(1, chunk.offset);
    entry.integer(2, static_cast<int64_t>(chunk.decoded_size));
    entry.integer(3, static_cast<int64_t>(chunk.records));
    records.push_back(entry.data());
  }
  const std::vector<std::string_view> footer(records.begin(), records.end());
  const int64_t footer_offset = position_;
  put_chunk('r', simple_chunk(footer), footer.size(), total(footer));
  pad();
  ProtoWriter postscript;
  postscript.integer(1, footer_offset);
  postscript.integer(2, static_cast<int64_t>(kArrayRecordMagic));
  const std::vector<std::string_view> copies(3, postscript.data());
  put_chunk('r', simple_chunk(copies), copies.size(), total(copies));
  pad();
}

}  // namespace tessera::data
