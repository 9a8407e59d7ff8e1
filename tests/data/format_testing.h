#pragma once
// The data sets of tests/references/formats (made by tools/references/formats/data_formats.py), and helpers of the sources'
// tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "data/source.h"
#include "image/image_testing.h"
#include "support/paths.h"

namespace tessera::data::testing {

inline const std::string kFormats = tessera::testing::source_path("tests/references/formats");
inline const std::vector<std::string> kClasses = {"cat", "dog", "owl"};

struct ReferenceSample {
  std::vector<uint8_t> image;
  int32_t label = 0;
  std::string caption;
  std::vector<std::string> captions;  // none to three
};
// The twelve samples, in order.
const std::vector<ReferenceSample>& reference_samples();

// Reads `source` through and compares with the reference samples `which`, in that order: images as bytes, labels and, where it
// has texts, the first as caption.
void expect_samples(const Source& source, const std::vector<size_t>& which);
std::vector<size_t> range(size_t begin, size_t end);
// Compares the texts of a field of every sample with the reference samples' captions.
void expect_captions(const Source& source, size_t field);

// The message with which opening fails, after checking its exit code.
std::string open_error(const std::string& call, Exit code = Exit::kData);

std::string as_string(const std::vector<uint8_t>& bytes);

// Sets when a file or directory changed last to an hour ago: an index is not kept of what changed this second.
void make_old(const std::filesystem::path& path);

// $TESSERA_CACHE_DIR in a directory of its own, while it lives.
class TempCache {
 public:
  TempCache();
  ~TempCache();
  // Index files in it.
  std::vector<std::string> indexes() const;

 private:
  image::testing::TempDir dir_;
};

}  // namespace tessera::data::testing
