#pragma once
// What the Hugging Face Hub says of a model's files: /api/models/NAME/revision/REVISION?blobs=true.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::state {

struct HubFile {
  std::string name;  // a plain file name
  int64_t size = 0;
  std::string hash;  // SHA-256 of a large file; of others git's of a blob; lower-case digits
  bool large = false;
};

struct HubListing {
  std::string commit;  // 40 digits
  std::vector<HubFile> files;

  const HubFile* find(std::string_view name) const;
};

// Names that are no plain file names are left out: none of them is wanted, and they could lead anywhere. Throws a data Error at
// `url` for what is no such listing.
HubListing parse_hub_listing(std::string_view text, const std::string& url);

}  // namespace tessera::state
