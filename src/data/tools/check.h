#pragma once
// `tessera data check`: reads and decodes every file of a source, and reports what the source has and what is wrong with it.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/index/manifest_check.h"
#include "data/source.h"
#include "data/transform/pp.h"
#include "image/codec/decode.h"

namespace tessera::data {

struct ClassCount {
  std::string name;
  int64_t samples = 0, unreadable = 0;
};

struct UnreadableFile {
  int64_t sample = 0;
  std::string id, reason;
};

// Files with exactly the same bytes, in the source's order.
struct DuplicateFiles {
  std::vector<int64_t> samples;
  std::vector<std::string> ids;
  bool labels_differ = false;  // the same picture stands in two classes, or has other labels
};

// An image whose size is far from the others'.
struct OddSize {
  int64_t sample = 0;
  std::string id;
  int width = 0, height = 0;
  std::string reason;  // "a side is 12 times the other"
};

// The texts of one of the source's fields.
struct TextCount {
  std::string field;
  int64_t texts = 0, empty = 0;
  // Of the longest, in bytes; the first of those that are as long. -1 when there is none.
  int64_t longest = -1, longest_sample = -1;
  std::string longest_id;
};

struct CheckReport {
  int64_t samples = 0;
  std::vector<ClassCount> classes;  // of a multi-label source a sample counts in each of its classes
  int64_t unlabelled = 0;           // readable samples of a multi-label source without a label
  std::vector<UnreadableFile> unreadable;
  std::vector<DuplicateFiles> duplicates;
  std::vector<Hash128> hashes;  // of each sample's bytes, in the source's order; zero of what could not be read
  // Longer than kMaxAspect times their other side, or with kMaxArea times fewer pixels than the median.
  static constexpr int kMaxAspect = 10, kMaxArea = 256;
  std::vector<OddSize> odd_sizes;
  std::array<int64_t, static_cast<size_t>(image::ImageFormat::kPixels) + 1> formats{};  // decoded files by ImageFormat
  image::RepairCounts repairs;                                                          // of the decoded files
  int64_t with_orientation = 0;  // whose EXIF says that they aren't upright
  int64_t misnamed = 0;          // named for another image format than they are in
  int64_t count(image::ImageFormat format) const { return formats[static_cast<size_t>(format)]; }
  // Of the decoded images; 0 when there is none. The smallest and largest by pixels.
  int min_width = 0, max_width = 0, min_height = 0, max_height = 0;
  std::string smallest, largest;
  uint64_t file_bytes = 0;
  std::vector<TextCount> texts;              // of each of the source's text_fields()
  int64_t cut_texts = 0;                     // longer than their row of ids in the chain
  std::vector<DamagedShard> damaged_shards;  // of those that a manifest lists
};

// Called now and then from one thread with how many of the files are done; when it returns false, checking stops and the report
// covers the files done so far.
using CheckProgress = std::function<bool(int64_t done, int64_t total)>;

// `threads` as in LoaderOptions. The report does not depend on it. With a chain its texts are tokenized, as in an evaluation.
// An image over the limits is unreadable. Shards are compared with their manifests after the samples; not where checking was
// stopped.
CheckReport check_source(const Source& source, const CheckProgress& progress = {}, int threads = 0, const Pp* pp = nullptr,
                         const image::DecodeLimits& limits = {});

}  // namespace tessera::data
