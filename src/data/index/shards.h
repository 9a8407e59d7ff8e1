#pragma once
// The index of sources whose samples lie in shards: how many in each, where in it, and which classes there are.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/formats/bytes/extent.h"
#include "data/index/label_column.h"
#include "data/index/listing.h"
#include "data/index/lru_cache.h"
#include "data/index/sidecar.h"
#include "data/source.h"
#include "store/file.h"

namespace tessera::data {

// Samples [begin, end).
struct SampleRange {
  int64_t begin = 0, end = 0;
};

// The contents of one shard.
struct ShardScan {
  std::vector<Extent> extents;   // in the order of the file, not overlapping; empty in formats that find samples by themselves
  std::optional<int64_t> count;  // of samples; that of extents when not given
  LabelColumn labels;            // of each sample, where they were asked for
  int64_t samples() const { return count.value_or(static_cast<int64_t>(extents.size())); }
};

// Reads a shard through, `with_labels` or not. Throws a data Error that names it. Called on several threads.
using ScanShard = std::function<ShardScan(const std::string& path, const store::ReadableFile& file, bool with_labels)>;

struct ShardIndexOptions {
  std::string name;   // of the source, for progress
  std::string call;   // with absolute paths: what else than the files the index depends on
  std::string where;  // the recipe key
  ScanShard scan;
  // Samples of each shard as the set's own description tells; then a set of more than kMaxStored samples is not scanned before
  // its samples are read.
  std::optional<std::vector<int64_t>> counts;
  bool needs_labels = false;  // which ones there are must be known; then even such a set is scanned whole
  bool label_lists = false;   // a sample has any number of labels
};

// Open shards, the most recently used few.
class ShardFiles {
 public:
  static constexpr int64_t kMaxOpen = 256;
  std::shared_ptr<const store::ReadableFile> open(size_t shard, const std::string& path) const;

 private:
  mutable LruCache<size_t, store::ReadableFile> files_{kMaxOpen};
};

// Memory: 8 bytes a shard besides its path, the extents of the shards used of late (kExtentMemory at most), and the pages of
// the sidecar that the system keeps. Thread-safe once made.
class ShardIndex {
 public:
  // Extents of larger sets are not stored: a shard is scanned when its samples are read.
  static constexpr int64_t kMaxStored = int64_t{1} << 26;
  static constexpr int64_t kExtentMemory = int64_t{256} << 20;

  // Throws a data Error for a shard that cannot be read or differs from `counts` or from a manifest
  // (data/index/manifest_check.h).
  ShardIndex(std::vector<std::string> paths, ShardIndexOptions options);

  struct Place {
    size_t shard = 0;
    int64_t sample = 0;  // in the shard
  };
  int64_t size() const { return first_.back(); }
  size_t shards() const { return paths_.size(); }
  const std::string& path(size_t shard) const { return paths_[shard]; }
  const std::vector<std::string>& paths() const { return paths_; }
  const std::vector<int64_t>& first() const { return first_; }  // sample of each shard, and the number of all
  Place locate(int64_t sample) const;
  // Throws where the shard had to be scanned and could not be.
  Extent extent(const Place& place) const;
  // A sample's shard and its place there: "train.tfrecord-00003-of-01024#17".
  std::string id(int64_t sample) const;
  // A number that changes with the sample's shard (stamp_number), as of when the index was opened.
  std::optional<uint64_t> stamp(int64_t sample) const;
  // A hash of what the index depends on: its call, and the shards' paths, sizes and times of change.
  Hash128 fingerprint() const;
  // Asks the system for the sample's bytes, where the index tells where they are; what fails, fails again in reading.
  void prefetch(int64_t sample) const;
  std::shared_ptr<const store::ReadableFile> file(size_t shard) const { return files_.open(shard, paths_[shard]); }
  const LabelsFound& labels() const { return labels_; }  // empty where they were not needed
  // Calls `visit` with the labels of each sample of `ranges` (one, but for options.label_lists), and the texts among which a
  // label that is a name has its place. One range after the other. False for sets of more than kMaxStored. Where labels were not
  // needed so far, scans the shards with them, which is kept too.
  using VisitLabels = std::function<void(std::span<const CodedLabel> labels, const std::vector<std::string>& names)>;
  bool visit_labels(const std::vector<SampleRange>& ranges, const VisitLabels& visit) const;
  // Whether extents are at hand; if not, samples of one shard are best read together.
  bool stored() const { return stored_; }
  SourceFacts facts() const;

 private:
  struct Built;
  int64_t samples_of(size_t shard) const { return first_[shard + 1] - first_[shard]; }
  std::string identity() const;  // of what the index holds
  void stat_all();
  bool load();
  void build();
  void join_blocks(Built& built);
  void keep(int64_t began) const;
  ShardScan scan_shard(size_t shard, const store::ReadableFile& file) const;
  ShardScan scan_again(size_t shard) const;
  std::vector<Extent> extents_of(size_t shard) const;
  std::optional<CodedLabels> decode(std::string_view labels, size_t shard, const std::vector<std::string>& names) const;
  CodedLabels labels_of(size_t shard, const std::vector<std::string>& names) const;
  std::string block(size_t shard) const;  // empty where it is not kept, or damaged

  std::vector<std::string> paths_;
  ShardIndexOptions options_;
  std::vector<FileStamp> stamps_;
  std::vector<int64_t> first_;
  LabelsFound labels_;
  bool stored_ = false, own_extents_ = false;
  std::string sidecar_path_;
  std::optional<Sidecar> sidecar_;
  std::string built_blocks_;
  std::vector<uint64_t> block_ends_;
  std::vector<uint32_t> block_crcs_;
  uint64_t bytes_ = 0;
  ShardFiles files_;
  mutable LruCache<size_t, std::vector<Extent>> extents_{kExtentMemory};
};

}  // namespace tessera::data
