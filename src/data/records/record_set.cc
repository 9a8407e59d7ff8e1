#include "data/records/record_set.h"

namespace tessera::data {

ShardIndexOptions index_options(RecordSetOptions options, ScanRecords scan) {
  ShardIndexOptions out{
      std::move(options.name), std::move(options.call), std::move(options.where), {}, std::move(options.counts)};
  out.needs_labels = options.find_label != nullptr;
  out.scan = [scan, find_label = std::move(options.find_label)](const std::string& path, const store::ReadableFile& file) {
    return scan(path, file, find_label);
  };
  return out;
}

}  // namespace tessera::data
