#pragma once
// The class folders of a bucket: which objects lie below them. Listing millions of objects takes minutes, so what was found is kept
// beside the data, as the object `.tessera-index`, where the bucket can be written (docs/formats/data_index.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/index/sidecar.h"
#include "store/servers/buckets.h"

namespace tessera::data {

struct FolderObjects {
  std::vector<std::string> classes;          // sorted
  std::vector<int64_t> first;                // file of each class, and the number of all
  TextList files;                            // relative to the folder; of class after class, sorted as bytes
  std::vector<store::ListedObject> objects;  // of each file
  int64_t loose = 0;                         // files beside the class folders
  int64_t listed = 0;                        // when, in seconds since 1970

  // Adds what a listing found, in any order; names with a part that begins with a dot are left out.
  void add(const std::vector<std::pair<std::string, store::ListedObject>>& found);
  int64_t bytes() const;

  std::string encode() const;
  // Nothing for bytes that encode() did not make.
  static std::optional<FolderObjects> decode(std::string_view bytes);
};

// What is kept at `url`, if anything; else, and after list_folders_anew(), a listing, which is then kept where that is possible: a
// note says so where it is not. Throws a data Error where the server fails.
FolderObjects open_folder_objects(const std::string& url);

// From now on nothing that was kept is used: for `tessera data index`.
void list_folders_anew();

}  // namespace tessera::data
