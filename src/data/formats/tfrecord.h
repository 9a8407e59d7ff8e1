#pragma once
// TFRecord files: records end to end, each in its frame (store/encoding/tfrecord_frame.h).

#include <optional>
#include <string>
#include <vector>

#include "data/formats/bytes/extent.h"
#include "store/encoding/tfrecord_frame.h"
#include "store/file.h"

namespace tessera::data {

using store::kTfrecordFooter;
using store::kTfrecordHeader;
using store::tfrecord_footer;
using store::tfrecord_header;
using store::tfrecord_intact;

// The data of every record. Reads headers alone, and checks them. Throws a data Error that names `path` and the offset for a
// file that is cut short, damaged or compressed.
std::vector<Extent> scan_tfrecords(const std::string& path, const store::ReadableFile& file);

// The data of the first one alone; nothing in an empty file.
std::optional<Extent> first_tfrecord_extent(const std::string& path, const store::ReadableFile& file);

}  // namespace tessera::data
