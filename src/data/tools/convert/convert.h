#pragma once
// `tessera data convert`: the samples of any source, written as shards that TFDS, array_record or webdataset read.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "image/codec/decode.h"

namespace tessera::data {

enum class ConvertFormat { kTfrecord, kArrayRecord, kTar };
std::optional<ConvertFormat> parse_convert_format(std::string_view name);  // tfrecord, array_record, tar
const char* convert_format_name(ConvertFormat format);

struct ConvertSplit {
  std::string name;  // "train"
  std::string call;  // what the source was made from
  std::shared_ptr<const Source> source;
  image::DecodeLimits limits = {};  // of each image that is encoded anew; what is over them is left out
};

struct ConvertOptions {
  ConvertFormat format = ConvertFormat::kTfrecord;
  std::string out;
  int64_t shard_bytes = int64_t{256} << 20;
  // 0: images stay as they are, byte for byte. Else those whose shorter side is longer are resized to it (bicubic, antialiased)
  // and encoded as JPEG.
  int resize = 0;
  // Of what is encoded. Where it is given without a resize, every image is encoded.
  std::optional<int> quality;
  int threads = 0;  // as in LoaderOptions
};

struct ConvertedSplit {
  std::string name;
  std::vector<std::string> files;       // in order
  std::vector<int64_t> shard_lengths;   // samples in each
  int64_t samples = 0, bytes = 0;       // bytes of the files
  int64_t kept = 0;                     // shards that an earlier conversion had finished, and whose checksums fit
  std::vector<std::string> remade;      // files that it had finished and that were damaged since
  std::vector<std::string> unreadable;  // "id: reason", left out
};

// Called now and then, from any thread.
using ConvertProgress = std::function<void(int64_t done, int64_t total)>;

// Writes DIR/1.0.0 (tfrecord, array_record: a version of a TFDS data set named as DIR is; also read by tfds(NAME)), or DIR
// (tar: NAME-SPLIT-NNNNNN.tar with _info.json and classes.txt), and at the end manifest.json beside the shards, without which
// nobody of ours reads them. What is written depends on the sources and options alone. A
// shard is there whole or not at all; an interrupted conversion goes on where the same is called for, as DIR/convert.json
// tells. Throws a usage Error for a directory that holds something else, and where a source changed since it was begun.
std::vector<ConvertedSplit> convert(const std::vector<ConvertSplit>& splits, const ConvertOptions& options,
                                    const ConvertProgress& progress = {});

}  // namespace tessera::data
