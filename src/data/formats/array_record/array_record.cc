#include "data/formats/array_record/array_record.h"

#include <brotli/decode.h>
#include <snappy.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cstring>
#include <memory>
#include <new>
#include <protozero/pbf_reader.hpp>

#include "base/error.h"
#include "data/formats/array_record/riegeli.h"
#include "data/formats/bytes/extent.h"
#include "data/formats/bytes/fail_at.h"
#include "data/formats/bytes/varint.h"

namespace tessera::data {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr uint64_t kMaxDecoded = uint64_t{1} << 30;
constexpr uint64_t kMaxRecords = uint64_t{1} << 24;  // of a chunk
// What a chunk may say that it holds without being asked how: a few bytes can be packed from any number of equal ones.
constexpr uint64_t kFreelyDecoded = uint64_t{64} << 20;
constexpr uint64_t kMaxRatio = 1100;

bool decompress_zstd(std::string_view in, uint8_t* out, size_t size) {
  const size_t got = ZSTD_decompress(out, size, in.data(), in.size());
  if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  return !ZSTD_isError(got) && got == size;
}

// Whether it is a refusal of the system: of the library's own allocations, whatever they were for.
bool out_of_memory(BrotliDecoderErrorCode code) {
  return code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES && code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;
}

bool decompress_brotli(std::string_view in, uint8_t* out, size_t size) {
  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> state(
      BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), BrotliDecoderDestroyInstance);
  if (!state) throw std::bad_alloc();
  size_t in_left = in.size(), out_left = size;
  const auto* from = reinterpret_cast<const uint8_t*>(in.data());
  const BrotliDecoderResult result = BrotliDecoderDecompressStream(state.get(), &in_left, &from, &out_left, &out, nullptr);
  if (result == BROTLI_DECODER_RESULT_SUCCESS) return in_left == 0 && out_left == 0;
  if (out_of_memory(BrotliDecoderGetErrorCode(state.get()))) throw std::bad_alloc();
  return false;
}

bool decompress(char compression, std::string_view in, uint8_t* out, size_t size) {
  if (compression == 'z') return decompress_zstd(in, out, size);
  if (compression == 'b') return decompress_brotli(in, out, size);
  size_t length = 0;
  return snappy::GetUncompressedLength(in.data(), in.size(), &length) && length == size &&
         snappy::RawUncompress(in.data(), in.size(), reinterpret_cast<char*>(out));
}

// One part of a chunk: as it is, or behind its size when decompressed.
bool decompress(char compression, std::string_view in, uint64_t most, PaddedBuffer& out) {
  uint64_t size = in.size();
  if (compression != 0 && !take_varint(in, size)) return false;
  if (size > most) return false;
  out.reset(size);
  if (compression != 0) return decompress(compression, in, out.data(), size);
  if (size > 0) std::memcpy(out.data(), in.data(), size);
  return true;
}

// A chunk's header and data, at `begin`. `end` is where the next begins.
struct RawChunk {
  RiegeliHeader header;
  std::string bytes;  // header and data
  std::string_view data() const { return std::string_view(bytes).substr(kRiegeliHeader); }
};

RawChunk read_chunk(const std::string& path, const store::ReadableFile& file, int64_t begin, int64_t end) {
  RawChunk chunk;
  if (begin < 0 || end > file.size() || end - begin < static_cast<int64_t>(kRiegeliHeader))
    fail_at(path, begin, "a chunk of records is cut short");
  if (end - begin > 2 * kMaxSampleBytes) fail_at(path, begin, "a chunk of records that is too large to be read");
  chunk.bytes = read_riegeli(file, begin, end);
  if (chunk.bytes.size() < kRiegeliHeader || !parse_riegeli_header(chunk.bytes, chunk.header))
    fail_at(path, begin, "wrong checksum of a chunk's header");
  if (chunk.header.data_size > chunk.bytes.size() - kRiegeliHeader) fail_at(path, begin, "a chunk of records is cut short");
  chunk.bytes.resize(kRiegeliHeader + chunk.header.data_size);
  if (riegeli_hash(chunk.data()) != chunk.header.data_hash) fail_at(path, begin, "wrong checksum of a chunk of records");
  return chunk;
}

void decode(const std::string& path, int64_t begin, const RawChunk& chunk, RecordGroup& group) {
  if (chunk.header.type == 't') {
    fail_at(path, begin, "a transposed chunk, which this program cannot read", "write the file again with `transpose:false`");
  }
  if (chunk.header.type != 'r') fail_at(path, begin, fmt::format("a chunk of type {}, not records", int{chunk.header.type}));
  if (!decode_simple_chunk(chunk.data(), chunk.header.records, chunk.header.decoded_size, group))
    fail_at(path, begin, "a chunk of records cannot be decompressed");
}

// {1: a, 2: b, 3: c}; false when the bytes are no such message.
bool read_numbers(std::string_view bytes, uint64_t (&numbers)[3]) {
  try {
    pbf_reader message(bytes.data(), bytes.size());
    while (message.next()) {
      const auto tag = message.tag();
      if (tag >= 1 && tag <= 3 && message.wire_type() == pbf_wire_type::varint) {
        numbers[tag - 1] = message.get_uint64();
      } else {
        message.skip();
      }
    }
    return true;
  } catch (const protozero::exception&) {
    return false;
  }
}

bool is_summary(std::string_view record, uint64_t (&numbers)[3]) {
  try {
    pbf_reader message(record.data(), record.size());
    if (!message.next(1, pbf_wire_type::length_delimited)) return false;
    const protozero::data_view inner = message.get_view();
    return read_numbers({inner.data(), inner.size()}, numbers);
  } catch (const protozero::exception&) {
    return false;
  }
}

int64_t footer_offset(const std::string& path, const store::ReadableFile& file) {
  const int64_t size = file.size();
  constexpr const char* kNot = "this is no ArrayRecord file, or it is cut short";
  if (size < kRiegeliBlock || size % kRiegeliBlock != 0) fail_at(path, size, kNot);
  const int64_t begin = size - kRiegeliBlock;
  RiegeliHeader header;
  const std::string head = read_riegeli(file, begin, begin + kRiegeliBlockHeader + kRiegeliHeader);
  if (!parse_riegeli_header(head, header) || header.type == 's' || header.data_size > static_cast<uint64_t>(kRiegeliBlock)) {
    fail_at(path, begin, kNot);
  }
  RecordGroup group;
  const int64_t end = riegeli_end(begin, static_cast<int64_t>(kRiegeliHeader + header.data_size));
  decode(path, begin, read_chunk(path, file, begin, end), group);
  uint64_t numbers[3] = {};
  if (group.ends.empty() || !read_numbers(group[0], numbers) || numbers[1] != kArrayRecordMagic) fail_at(path, begin, kNot);
  if (numbers[0] >= static_cast<uint64_t>(begin)) fail_at(path, begin, "the index of the file lies outside it");
  return static_cast<int64_t>(numbers[0]);
}

}  // namespace

bool decode_simple_chunk(std::string_view data, uint64_t records, uint64_t decoded_size, RecordGroup& group) {
  if (data.empty() || decoded_size > kMaxDecoded || records > kMaxRecords) return false;
  if (decoded_size > kFreelyDecoded && decoded_size / kMaxRatio > data.size()) return false;
  const char compression = data.front();
  if (compression != 0 && compression != 'z' && compression != 'b' && compression != 's') return false;
  data.remove_prefix(1);
  uint64_t sizes_size = 0;
  if (!take_varint(data, sizes_size) || sizes_size > data.size()) return false;
  PaddedBuffer sizes;
  if (!decompress(compression, data.substr(0, sizes_size), std::min<uint64_t>(records * 10, kMaxDecoded), sizes)) return false;
  std::string_view rest(reinterpret_cast<const char*>(sizes.data()), sizes.size());
  if (records > rest.size()) return false;
  group.ends.resize(records);
  uint64_t end = 0;
  for (uint64_t& one : group.ends) {
    uint64_t size = 0;
    if (!take_varint(rest, size) || size > decoded_size - end) return false;
    one = end += size;
  }
  return rest.empty() && end == decoded_size && decompress(compression, data.substr(sizes_size), decoded_size, group.values) &&
         group.values.size() == decoded_size;
}

void read_record_group(const std::string& path, const store::ReadableFile& file, int64_t begin, int64_t end, int64_t records,
                       RecordGroup& group) {
  const RawChunk chunk = read_chunk(path, file, begin, end);
  decode(path, begin, chunk, group);
  if (group.ends.size() != static_cast<size_t>(records))
    fail_at(path, begin, fmt::format("a chunk of {} records where the index says {}", group.ends.size(), records));
}

ArrayRecordIndex read_array_record_index(const std::string& path, const store::ReadableFile& file) {
  const int64_t footer = footer_offset(path, file);
  const std::string head = read_riegeli(file, footer, riegeli_end(footer, kRiegeliHeader));
  RiegeliHeader header;
  if (head.size() < kRiegeliHeader || !parse_riegeli_header(head, header) ||
      header.data_size > static_cast<uint64_t>(file.size())) {
    fail_at(path, footer, "the index of the file is damaged");
  }
  RecordGroup group;
  const int64_t end = riegeli_end(footer, static_cast<int64_t>(kRiegeliHeader + header.data_size));
  decode(path, footer, read_chunk(path, file, footer, end), group);
  uint64_t summary[3] = {};
  if (group.ends.empty() || !is_summary(group[0], summary) || summary[1] != group.ends.size() - 1)
    fail_at(path, footer, "the index of the file is damaged");
  ArrayRecordIndex index{{}, {0}};
  for (size_t i = 1; i < group.ends.size(); ++i) {
    uint64_t chunk[3] = {};
    const auto most = static_cast<uint64_t>(footer);
    if (!read_numbers(group[i], chunk) || chunk[0] >= most || chunk[2] > most ||
        (i > 1 && static_cast<int64_t>(chunk[0]) <= index.offsets.back())) {
      fail_at(path, footer, "the index of the file is damaged");
    }
    index.offsets.push_back(static_cast<int64_t>(chunk[0]));
    index.first.push_back(index.first.back() + static_cast<int64_t>(chunk[2]));
  }
  index.offsets.push_back(footer);
  if (static_cast<uint64_t>(index.records()) != summary[2]) fail_at(path, footer, "the index of the file is damaged");
  return index;
}

}  // namespace tessera::data
