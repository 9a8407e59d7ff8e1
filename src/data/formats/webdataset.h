#pragma once
// WebDataset (github.com/webdataset/webdataset): samples as neighbouring members of a tar archive. A member's key is its path
// up to the first dot of its last part, its extension the rest in lower case; members of one key are one sample. Members whose
// path begins with __…__ are no samples.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/bytes/extent.h"
#include "store/file.h"

namespace tessera::data {

// Nothing for a name that is no sample's.
struct WdsName {
  std::string key, extension;
};
std::optional<WdsName> parse_wds_name(std::string_view path);

struct WdsMember {
  std::string extension;
  std::string_view data;
};
struct WdsSample {
  std::string key;
  std::vector<WdsMember> members;
  const WdsMember* find(std::string_view extension) const;
};

// From the headers of the first member to the end of the last one's data, for each sample. `visit`, where given, sees each
// sample with its member of this `extension` alone, read: for looking at labels. Throws a data Error that names `path`, the key
// and the offset for damage, for a sample with two members of one extension and for a key that comes again.
std::vector<Extent> scan_wds(const std::string& path, const store::ReadableFile& file, std::string_view extension = {},
                             const std::function<void(const WdsSample&)>& visit = {});

// The first sample alone. False when there is none.
bool visit_first_wds(const std::string& path, const store::ReadableFile& file,
                     const std::function<void(const WdsSample&)>& visit);

// The sample in the bytes of an extent, borrowed from them. Throws as scan_wds does.
WdsSample parse_wds_sample(const std::string& path, std::string_view bytes);

}  // namespace tessera::data
