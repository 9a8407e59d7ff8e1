#pragma once
// The shards that a conversion has finished, so that an interrupted one can go on. They are lines of DIR/convert.journal until
// the end, when they go to manifest.json (data/formats/manifest.h) and the file is removed.

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/manifest.h"

namespace tessera::data {

class ConvertJournal {
 public:
  // `out`: of the conversion; `folder`: of the shards.
  ConvertJournal(std::string out, std::string folder);

  // The entry of a shard that is there as it was written: reads it for its checksum. Nothing where it is to be made (again);
  // `damaged` is then set where it was finished once and is no longer what it was. Thread-safe.
  std::optional<ManifestFile> finished(const std::string& name, bool& damaged) const;
  // After the shard is in its place. Survives a power cut. Thread-safe.
  void add(const ManifestFile& file);
  // Writes the manifest, then removes the journal.
  void finish(const std::vector<ManifestFile>& files);

 private:
  std::string path_, folder_;
  std::map<std::string, ManifestFile, std::less<>> known_;
  std::mutex mutex_;
};

}  // namespace tessera::data
