#pragma once
// Files that a program writes for a place in a bucket: written here first, then there.

#include <string>

namespace tessera::remote {

class StagedOutput {
 public:
  // `to`: a path of this machine, or of a bucket. Throws a usage Error at `where` for a URL that can't be written.
  StagedOutput(std::string to, const std::string& where);
  ~StagedOutput();
  StagedOutput(const StagedOutput&) = delete;
  StagedOutput& operator=(const StagedOutput&) = delete;

  // Where to write: `to`, or of a bucket a path in an empty directory of the cache, with the same last part.
  const std::string& path() const { return path_; }
  // Copies what is at path() to the bucket, a file or a directory, and the files beside it whose names begin with its name. Weights
  // come first, then what describes them, then checksums, so that those who look for the last one find all. Throws a data Error.
  void finish();

 private:
  const std::string to_;
  std::string directory_, path_;  // directory_ is empty where path_ is `to`
};

}  // namespace tessera::remote
