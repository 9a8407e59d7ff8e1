#include <algorithm>

#include "base/error.h"
#include "data/formats/array_record/array_record.h"
#include "data/formats/bytes/bytes_file.h"
#include "data/index/lru_cache.h"
#include "data/records/record_set.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

constexpr size_t kMaxIndexed = 4096;
constexpr int64_t kIndexMemory = int64_t{256} << 20, kGroupMemory = int64_t{512} << 20;

ShardScan scan_array_record_shard(const std::string& path, const store::ReadableFile& file, const FindLabel& find_label) {
  const ArrayRecordIndex index = read_array_record_index(path, file);
  ShardScan found{{}, index.records(), {}};
  if (!find_label) return found;
  RecordGroup group;
  for (size_t chunk = 0; chunk + 1 < index.offsets.size(); ++chunk) {
    const int64_t records = index.first[chunk + 1] - index.first[chunk];
    read_record_group(path, file, index.offsets[chunk], index.offsets[chunk + 1], records, group);
    const BytesFile values({reinterpret_cast<const char*>(group.values.data()), group.values.size()});
    Window window(values);
    for (size_t i = 0; i < group.ends.size(); ++i) {
      const auto size = static_cast<int64_t>(group[i].size());
      find_label(window, {static_cast<int64_t>(group.ends[i]) - size, size}, found.labels);
    }
  }
  return found;
}

class ArrayRecordSet final : public RecordSet {
 public:
  ArrayRecordSet(std::vector<std::string> paths, RecordSetOptions options)
      : index_(std::move(paths), index_options(std::move(options), scan_array_record_shard)) {
    if (index_.size() > 0) grouped_ = chunks(first_shard())->first[1] > 1;
  }

  const ShardIndex& index() const override { return index_; }
  std::vector<int64_t> stretches() const override;
  void prefetch(int64_t index) const override;
  std::optional<std::string> read(int64_t index, Sample& sample, std::string_view& record) const override;

 private:
  using Indexes = LruCache<size_t, ArrayRecordIndex>;
  using Groups = LruCache<int64_t, RecordGroup>;

  size_t first_shard() const { return index_.locate(0).shard; }

  std::shared_ptr<const ArrayRecordIndex> chunks(size_t shard) const {
    return indexes_.get(shard, [&] {
      auto made = std::make_shared<ArrayRecordIndex>(read_array_record_index(index_.path(shard), *index_.file(shard)));
      if (made->records() != index_.first()[shard + 1] - index_.first()[shard]) {
        throw data_error(fmt::format("`{}` has {} records, but {} are expected: the file is of another version",
                                     index_.path(shard), made->records(), index_.first()[shard + 1] - index_.first()[shard]));
      }
      const auto cost = static_cast<int64_t>((made->offsets.size() + made->first.size()) * sizeof(int64_t));
      return Indexes::Made{std::move(made), cost};
    });
  }

  void read_group(size_t shard, const ArrayRecordIndex& chunks, size_t chunk, RecordGroup& group) const {
    read_record_group(index_.path(shard), *index_.file(shard), chunks.offsets[chunk], chunks.offsets[chunk + 1],
                      chunks.first[chunk + 1] - chunks.first[chunk], group);
  }

  ShardIndex index_;
  bool grouped_ = false;
  mutable Indexes indexes_{kIndexMemory};
  mutable Groups groups_{kGroupMemory};
};

// Where records are grouped, all records of a group are decompressed for one of them.
std::vector<int64_t> ArrayRecordSet::stretches() const {
  if (!grouped_) return {};
  // Of very many, not every index is read beforehand: then a shard is a stretch.
  if (index_.shards() > kMaxIndexed) return {index_.first().begin(), index_.first().end() - 1};
  std::vector<int64_t> out;
  for (size_t shard = 0; shard < index_.shards(); ++shard) {
    const int64_t first = index_.first()[shard];
    if (index_.first()[shard + 1] == first) continue;
    const auto index = chunks(shard);
    for (size_t chunk = 0; chunk + 1 < index->first.size(); ++chunk) out.push_back(first + index->first[chunk]);
  }
  return out;
}

void ArrayRecordSet::prefetch(int64_t index) const {
  const ShardIndex::Place place = index_.locate(index);
  try {
    const auto table = chunks(place.shard);
    const auto chunk = static_cast<size_t>(std::ranges::upper_bound(table->first, place.sample) - table->first.begin() - 1);
    index_.file(place.shard)->prefetch(table->offsets[chunk], table->offsets[chunk + 1] - table->offsets[chunk]);
  } catch (const Error&) {  // read() fails with the same
  }
}

std::optional<std::string> ArrayRecordSet::read(int64_t index, Sample& sample, std::string_view& record) const {
  const ShardIndex::Place place = index_.locate(index);
  try {
    const auto table = chunks(place.shard);
    const auto chunk = static_cast<size_t>(std::ranges::upper_bound(table->first, place.sample) - table->first.begin() - 1);
    const auto inside = static_cast<size_t>(place.sample - table->first[chunk]);
    if (table->first[chunk + 1] - table->first[chunk] == 1) {
      thread_local RecordGroup group;
      read_group(place.shard, *table, chunk, group);
      std::swap(group.values, sample.memory);
      record = {reinterpret_cast<const char*>(sample.memory.data()), sample.memory.size()};
      return std::nullopt;
    }
    const auto group = groups_.get(index_.first()[place.shard] + table->first[chunk], [&] {
      auto made = std::make_shared<RecordGroup>();
      read_group(place.shard, *table, chunk, *made);
      const auto cost = static_cast<int64_t>(made->values.size());
      return Groups::Made{std::move(made), cost};
    });
    const std::string_view found = (*group)[inside];
    sample.memory.reset(found.size());
    std::copy(found.begin(), found.end(), sample.memory.data());
    record = {reinterpret_cast<const char*>(sample.memory.data()), found.size()};
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

std::unique_ptr<RecordSet> open_array_records(std::vector<std::string> paths, RecordSetOptions options) {
  return std::make_unique<ArrayRecordSet>(std::move(paths), std::move(options));
}

std::string first_array_record(const std::vector<std::string>& paths, const std::string& where) {
  try {
    for (const std::string& path : paths) {
      const auto file = store::files_at(path).open(path);
      const ArrayRecordIndex index = read_array_record_index(path, *file);
      if (index.records() == 0) continue;
      RecordGroup group;
      const auto chunk = static_cast<size_t>(std::ranges::upper_bound(index.first, int64_t{0}) - index.first.begin() - 1);
      read_record_group(path, *file, index.offsets[chunk], index.offsets[chunk + 1], index.first[chunk + 1], group);
      return std::string(group[0]);
    }
  } catch (const Error& error) {
    throw data_error(error.message(), where, error.help());
  }
  throw data_error(fmt::format("`{}` {} no records", paths.front(), paths.size() == 1 ? "holds" : "and the others hold"),
                   where);
}

}  // namespace tessera::data
