#include <protozero/pbf_writer.hpp>

#include "data/formats/array_record/array_record.h"
#include "data/formats/array_record/riegeli.h"

namespace tessera::data {
namespace {

using protozero::add_varint_to_buffer;
using protozero::pbf_writer;

constexpr const char* kOptions = "group_size:1,transpose:false,pad_to_block_boundary:false,uncompressed,max_parallelism:1";

// The data of a chunk of type 'r' without compression.
std::string simple_chunk(const std::vector<std::string_view>& records) {
  std::string sizes;
  for (const std::string_view record : records) add_varint_to_buffer(&sizes, record.size());
  std::string data(1, '\0');
  add_varint_to_buffer(&data, sizes.size());
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
  {
    pbf_writer wrapped(records[0]);
    pbf_writer summary(wrapped, 1);
    summary.add_int32(1, 1);
    summary.add_uint64(2, chunks_.size());
    summary.add_uint64(3, chunks_.size());
    summary.add_string(4, kOptions);
  }
  for (const Chunk& chunk : chunks_) {
    pbf_writer entry(records.emplace_back());
    entry.add_int64(1, chunk.offset);
    entry.add_uint64(2, chunk.decoded_size);
    entry.add_uint64(3, chunk.records);
  }
  const std::vector<std::string_view> footer(records.begin(), records.end());
  const int64_t footer_offset = position_;
  put_chunk('r', simple_chunk(footer), footer.size(), total(footer));
  pad();
  std::string postscript;
  pbf_writer(postscript).add_int64(1, footer_offset);
  pbf_writer(postscript).add_uint64(2, kArrayRecordMagic);
  const std::vector<std::string_view> copies(3, postscript);
  put_chunk('r', simple_chunk(copies), copies.size(), total(copies));
  pad();
}

}  // namespace tessera::data
