#include "base/error.h"
#include "data/formats/tfrecord.h"
#include "data/records/record_set.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

ShardScan scan_tfrecord_shard(const std::string& path, const store::ReadableFile& file, const FindLabel& find_label) {
  ShardScan found;
  found.extents = scan_tfrecords(path, file);
  if (!find_label) return found;
  Window window(file);
  for (const Extent& extent : found.extents) find_label(window, extent, found.labels);
  return found;
}

class TfrecordSet final : public RecordSet {
 public:
  TfrecordSet(std::vector<std::string> paths, RecordSetOptions options)
      : index_(std::move(paths), index_options(std::move(options), scan_tfrecord_shard)) {}

  const ShardIndex& index() const override { return index_; }
  void prefetch(int64_t index) const override { index_.prefetch(index); }

  std::vector<int64_t> stretches() const override {
    if (index_.stored()) return {};
    return {index_.first().begin(), index_.first().end() - 1};
  }

  std::optional<std::string> read(int64_t index, Sample& sample, std::string_view& record) const override {
    const ShardIndex::Place place = index_.locate(index);
    try {
      const Extent extent = index_.extent(place);
      check_sample_bytes(extent.length);
      sample.memory.reset(static_cast<size_t>(extent.length + kTfrecordFooter));
      const std::span bytes(sample.memory.data(), sample.memory.size());
      index_.file(place.shard)->read(extent.offset, std::as_writable_bytes(bytes));
      const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      record = all.substr(0, static_cast<size_t>(extent.length));
      if (tfrecord_intact(record, all.substr(record.size()))) return std::nullopt;
      return fmt::format("wrong checksum of the record at offset {} of `{}`: the file is damaged, copy it again",
                         extent.offset - kTfrecordHeader, index_.path(place.shard));
    } catch (const Error& error) {
      return error.message();
    }
  }

 private:
  ShardIndex index_;
};

}  // namespace

std::unique_ptr<RecordSet> open_tfrecords(std::vector<std::string> paths, RecordSetOptions options) {
  return std::make_unique<TfrecordSet>(std::move(paths), std::move(options));
}

std::string first_tfrecord(const std::vector<std::string>& paths, const std::string& where) {
  try {
    for (const std::string& path : paths) {
      const auto file = store::files_at(path).open(path);
      if (const auto extent = first_tfrecord_extent(path, *file)) {
        check_sample_bytes(extent->length);
        std::string record(static_cast<size_t>(extent->length), '\0');
        file->read(extent->offset, std::as_writable_bytes(std::span(record)));
        return record;
      }
    }
  } catch (const Error& error) {
    throw data_error(error.message(), where, error.help());
  }
  throw data_error(fmt::format("`{}` {} no records", paths.front(), paths.size() == 1 ? "holds" : "and the others hold"),
                   where);
}

}  // namespace tessera::data
