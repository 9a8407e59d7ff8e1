#include "data/records/record_set.h"

namespace tessera::data {

ShardIndexOptions index_options(RecordSetOptions options, ScanRecords scan) {
  ShardIndexOptions out{std::move(options.name),   std::move(options.call), std::move(options.where), {},
                        std::move(options.counts), options.needs_labels};
  out.label_lists = options.label_lists;
  out.scan = [scan, find_label = std::move(options.find_label)](const std::string& path, const store::ReadableFile& file,
                                                                bool with_labels) {
    return scan(path, file, with_labels ? find_label : FindLabel());
  };
  return out;
}

}  // namespace tessera::data
