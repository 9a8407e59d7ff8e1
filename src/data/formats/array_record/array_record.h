#pragma once
// ArrayRecord files: Riegeli records with an index at their end (github.com/google/array_record, github.com/google/riegeli
// doc/riegeli_records_file_format.md).
//
// Every 64 KiB a 24-byte block header stands among the bytes: hash, distance back to the beginning of the chunk that lies
// there, distance on to its end. Between them, chunks end to end: hash of the header's rest, data size, data hash, type (1
// byte) and number of records (7), decoded size; then the data. In a chunk of type 'r': compression (0, 'z'std, 'b'rotli,
// 's'nappy), size of the sizes, the records' sizes as varints, the records. What is compressed begins with its size when
// decompressed. The last chunk of data is the footer: its first record holds {1: {1: version, 2: chunks, 3: records, 4:
// options}}, then one a chunk {1: offset, 2: decoded size, 3: records}. The chunk in the last 64 KiB holds {1: offset of the
// footer, 2: magic}.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "image/image.h"
#include "store/file.h"

namespace tessera::data {

// Where records are in a file.
struct ArrayRecordIndex {
  std::vector<int64_t> offsets;  // of each chunk, and the end of the last
  std::vector<int64_t> first;    // record of each chunk, and the number of all
  int64_t records() const { return first.back(); }
};

// Throws a data Error that names `path` for what is no ArrayRecord file, is cut short or damaged.
ArrayRecordIndex read_array_record_index(const std::string& path, const store::ReadableFile& file);

// The records of a chunk, end to end.
struct RecordGroup {
  PaddedBuffer values;
  std::vector<uint64_t> ends;
  std::string_view operator[](size_t i) const {
    const uint64_t begin = i == 0 ? 0 : ends[i - 1];
    return {reinterpret_cast<const char*>(values.data()) + begin, ends[i] - begin};
  }
};

// The chunk in [begin, end) of the file. Throws a data Error that names `path` and the offset when it is damaged, transposed or
// has not `records` records.
void read_record_group(const std::string& path, const store::ReadableFile& file, int64_t begin, int64_t end, int64_t records,
                       RecordGroup& group);

// The data of a chunk of type 'r'. False when it is damaged.
bool decode_simple_chunk(std::string_view data, uint64_t records, uint64_t decoded_size, RecordGroup& group);

// Writes one file: groups of one record, not compressed, as suits images.
class ArrayRecordWriter {
 public:
  explicit ArrayRecordWriter(store::WritableFile& file);
  void add(std::string_view record);
  // Footer and postscript. No call may follow; the file is not synced.
  void finish();

 private:
  struct Chunk {
    int64_t offset;
    uint64_t decoded_size, records;
  };
  void put_chunk(char type, const std::string& data, uint64_t records, uint64_t decoded_size);
  void put(std::string_view bytes, int64_t chunk_begin, int64_t chunk_end);
  void pad();

  store::WritableFile& file_;
  int64_t position_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace tessera::data
