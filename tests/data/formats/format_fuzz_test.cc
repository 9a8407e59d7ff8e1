// Damaged data sets: mutants of good files through every target of tests/fuzz/targets.h that concerns data.

#include <cstring>

#include "data/format_testing.h"
#include "data/formats/tar.h"
#include "data/formats/tfrecord.h"
#include "fuzz/mutants.h"
#include "support/paths.h"

namespace tessera::data {
namespace {

using testing::as_string;
using testing::kFormats;

std::string read(const std::string& name) { return as_string(image::testing::read_file(kFormats + "/" + name)); }

std::string first_record(const std::string& shard) {
  uint64_t length;
  std::memcpy(&length, shard.data(), sizeof length);
  return shard.substr(12, length);
}

// Good input of each target.
std::vector<std::string> seeds(const std::string& target) {
  const std::string shard = read("tfrecord/train-00000-of-00002");
  if (target.starts_with("tfrecord")) return {shard, tfrecord_header("") + tfrecord_footer("")};
  if (target == "example") return {first_record(shard), first_record(read("tfds/toy/1.0.0/toy-train.tfrecord-00000-of-00002"))};
  if (target == "array_record_chunks") return {read("../../fuzz/corpus/array_record_chunks/whole")};
  if (target.starts_with("array_record"))
    return {read("array_record/zstd-5.array_record"), read("array_record/brotli-1.array_record")};
  if (target == "chunk") {
    std::vector<std::string> chunks = {std::string("\x02\x00\x05\x00\x00\x02\x02\x03hello", 13)};
    for (const char* name : {"zstd", "brotli", "snappy"}) {
      // The first chunk's data of a file whose groups hold five records.
      const std::string file = read(std::string("array_record/") + name + "-5.array_record");
      const auto number = [&](size_t at) {
        return static_cast<size_t>(static_cast<uint8_t>(file[at])) + 256u * static_cast<uint8_t>(file[at + 1]);
      };
      chunks.push_back(std::string("\x05\x00", 2) + file.substr(64 + 32, 2) + file.substr(64 + 40, number(64 + 8)));
    }
    return chunks;
  }
  if (target == "tar" || target.starts_with("wds"))
    return {read("wds/train-000.tar"), read("wds/pax.tar"), read("wds/gnu.tar")};
  if (target == "json_fields")
    return {"{\"image\": \"a.jpg\", \"label\": 3, \"meta\": {\"class\": \"\\u00e4\"}, \"x\": [1, null, -2.5e3]}"};
  if (target == "tfds_info") return {read("tfds/toy/1.0.0/dataset_info.json"), read("tfds/toy/array/1.0.0/dataset_info.json")};
  if (target == "tfds_features") return {read("tfds/toy/1.0.0/features.json")};
  if (target == "tfds_split") return {"train[10%:90%]+validation[:-3]", "test"};
  if (target == "parquet_footer") return {read("../../fuzz/corpus/parquet_footer/lists")};
  if (target == "charsmap") return {read("../../fuzz/corpus/charsmap/one")};
  if (target == "lines") return {"{\"a\": 1}\r\n\n{\"b\": 2}\n  \nlast"};
  if (target == "csv") return {"image,label\r\na.png,\"an \"\"owl\"\"\nor two\"\n\n b.png , 3\n"};
  if (target == "coco") return {read("../../fuzz/corpus/coco/captions.json"), read("../../fuzz/corpus/coco/objects.json")};
  if (target == "mat") return {read("../mat/devkit_plain.mat"), read("../mat/devkit.mat")};
  if (target == "tokenizer_json") return {read("../text/gpt2.json"), read("../text/clip.json")};
  const std::string images = tessera::testing::source_path("tests/image/images/");
  return {as_string(image::testing::read_file(images + "exif_5.jpg")), as_string(image::testing::read_file(images + "rgb.png")),
          as_string(image::testing::read_file(images + "lossless.webp"))};
}

TEST(FormatFuzz, FilesOfTheCorpusGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::data_targets()) {
    SCOPED_TRACE(target.name);
    int64_t taken = 0;
    for (const std::string& file : fuzz::corpus(target.name)) taken += target.target(file);
    EXPECT_GT(taken, 0);
  }
}

TEST(FormatFuzz, DamagedFilesGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::data_targets()) {
    // Behind checksums little is taken that was damaged; with them put right, or without any, some must be.
    const std::string name(target.name);
    for (const std::string& seed : seeds(name)) EXPECT_TRUE(target.target(seed)) << name << ": the good file is not taken";
    fuzz::expect_result_or_error(target, seeds(name), name != "tfrecord" && name != "array_record" && name != "wds");
  }
  for (const auto& targets : {fuzz::index_targets(), fuzz::pp_targets()}) {
    for (const fuzz::NamedTarget& target : targets) fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
  }
}

}  // namespace
}  // namespace tessera::data
