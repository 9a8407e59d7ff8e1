#pragma once
// Which files lie below the class folders of a source folder(path).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/index/sidecar.h"

namespace tessera::data {

// Samples are the files of class after class, in the order of their paths as bytes.
class FolderIndex {
 public:
  // From the sidecar where all directories have the mtimes that it knows; else lists, on several threads, and writes one.
  // Throws a data Error where there are no class folders, or a class has no files.
  FolderIndex(const std::string& root, const std::string& where);

  int64_t size() const { return static_cast<int64_t>(files_.size()); }
  // Relative to the root. Throws store::IoError where the sidecar can no longer be read.
  std::string path(int64_t index) const;
  int32_t label(int64_t index) const;
  const std::vector<std::string>& classes() const { return classes_; }
  std::vector<int64_t> class_sizes() const;
  bool from_sidecar() const { return sidecar_.has_value(); }

 private:
  struct Listing;
  bool load(const std::string& root, const std::string& sidecar);
  void list(const std::string& root, const std::string& sidecar, const std::string& where);
  void keep(const Listing& listing, const std::string& sidecar) const;

  std::vector<std::string> classes_;
  std::vector<int64_t> first_;  // of each class, and the number of all
  TextList listed_;             // what files_ shows when there was no sidecar
  std::optional<Sidecar> sidecar_;
  TextView files_;
};

}  // namespace tessera::data
