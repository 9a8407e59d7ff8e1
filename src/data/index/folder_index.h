#pragma once
// Which files lie below the class folders of a source folder(path).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/index/sidecar.h"
#include "store/servers/buckets.h"

namespace tessera::data {

// Samples are the files of class after class, in the order of their paths as bytes.
class FolderIndex {
 public:
  // From the sidecar where all directories have the mtimes that it knows; else lists, on several threads, and writes one.
  // Throws a data Error where there are no class folders, a class has no files, or the folders are parts of a data set (train,
  // val) with class folders of their own. Of a folder on a server: index/folder_objects.h.
  FolderIndex(const std::string& root, const std::string& where);

  int64_t size() const { return static_cast<int64_t>(files_.size()); }
  // Relative to the root. Throws store::IoError where the sidecar can no longer be read.
  std::string path(int64_t index) const;
  int32_t label(int64_t index) const;
  const std::vector<std::string>& classes() const { return classes_; }
  std::vector<int64_t> class_sizes() const;
  bool from_sidecar() const { return sidecar_.has_value(); }
  // What a listing says about a file on a server; null for files of this machine.
  const store::ListedObject* object(int64_t index) const {
    return objects_.empty() ? nullptr : &objects_[static_cast<size_t>(index)];
  }
  int64_t bytes() const { return bytes_; }  // of all files, on a server; of this machine's they are not counted: 0

 private:
  struct Listing;
  bool load(const std::string& root, const std::string& sidecar);
  void list(const std::string& root, const std::string& sidecar, const std::string& where);
  void keep(const Listing& listing, const std::string& sidecar) const;
  void open_objects(const std::string& root, const std::string& where);
  void open(const std::string& root, const std::string& where);
  bool holds_folders(size_t label) const;
  void refuse_parts(const std::string& root, const std::string& where) const;

  std::vector<std::string> classes_;
  std::vector<int64_t> first_;  // of each class, and the number of all
  TextList listed_;             // what files_ shows when there was no sidecar
  std::optional<Sidecar> sidecar_;
  TextView files_;
  std::vector<store::ListedObject> objects_;  // on a server: of each file
  int64_t bytes_ = 0;
};

}  // namespace tessera::data
