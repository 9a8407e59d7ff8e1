#pragma once
// Records in shards, whatever the file format: byte strings read by number.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/bytes/window.h"
#include "data/index/shards.h"
#include "data/source.h"

namespace tessera::data {

class RecordSet {
 public:
  virtual ~RecordSet() = default;
  virtual const ShardIndex& index() const = 0;
  // The record's bytes, in sample.memory; PaddedBuffer::kPadding readable bytes after them. A reason when it cannot be read,
  // which names the file. Thread-safe.
  [[nodiscard]] virtual std::optional<std::string> read(int64_t index, Sample& sample, std::string_view& record) const = 0;
  virtual void prefetch(int64_t) const {}  // as Source's
  virtual std::vector<int64_t> stretches() const { return {}; }
};

// Adds to a column the label of the record at that place in a file, or that it has none.
using FindLabel = std::function<void(Window& file, const Extent& record, LabelColumn& column)>;

struct RecordSetOptions {
  std::string name, call, where;                   // as in ShardIndexOptions
  FindLabel find_label;                            // empty: records have no labels
  std::optional<std::vector<int64_t>> counts;      // of each shard, where they are known
  bool needs_labels = false, label_lists = false;  // as in ShardIndexOptions
};

// Reads a shard of records through, and labels where there is a `find_label`.
using ScanRecords = ShardScan (*)(const std::string& path, const store::ReadableFile& file, const FindLabel& find_label);
// The options of the index of a set whose shards `scan` reads.
ShardIndexOptions index_options(RecordSetOptions options, ScanRecords scan);

// Files of TFRecords.
std::unique_ptr<RecordSet> open_tfrecords(std::vector<std::string> paths, RecordSetOptions options);
// Files of ArrayRecords (data/formats/array_record/array_record.h).
std::unique_ptr<RecordSet> open_array_records(std::vector<std::string> paths, RecordSetOptions options);

// The first record of the set, for looking at its features. Throws a data Error where there is none.
std::string first_tfrecord(const std::vector<std::string>& paths, const std::string& where);
std::string first_array_record(const std::vector<std::string>& paths, const std::string& where);

}  // namespace tessera::data
