// Damaged data sets: mutants of good files through every target of tests/fuzz/targets.h. Meant to run under the sanitizers.
// TESSERA_FUZZ_ROUNDS sets how many mutants are made of each file.

#include <cstdlib>
#include <cstring>

#include "base/rng.h"
#include "data/format_testing.h"
#include "data/formats/tar.h"
#include "data/formats/tfrecord.h"
#include "fuzz/targets.h"

namespace tessera::data {
namespace {

using testing::as_string;
using testing::kFormats;

int rounds() {
  const char* text = std::getenv("TESSERA_FUZZ_ROUNDS");
  return text ? std::atoi(text) : 60;
}

// What formats care about: ends, zeros, large numbers, and what text formats are made of.
constexpr std::string_view kWords[] = {"\xff\xff\xff\xff\xff\xff\xff\xff",
                                       "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                                       "\x7f",
                                       "{",
                                       "}",
                                       "\"",
                                       ":",
                                       "[",
                                       "]",
                                       ",",
                                       "\n",
                                       "..",
                                       "-1",
                                       "9223372036854775807",
                                       "%",
                                       "/",
                                       "."};

std::string mutate(std::string bytes, Rng& rng) {
  if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size() + 1));
  for (uint64_t i = rng.below(6) + 1; i > 0 && !bytes.empty(); --i) {
    const uint64_t at = rng.below(rng.below(2) ? std::min<uint64_t>(bytes.size(), 700) : bytes.size());
    switch (rng.below(5)) {
      case 0: bytes[at] = static_cast<char>(rng.next()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1u << rng.below(8))); break;
      case 2: {
        const std::string_view word = kWords[rng.below(std::size(kWords))];
        bytes.replace(at, rng.below(word.size() + 1), word);
        break;
      }
      case 3: bytes.erase(at, rng.below(20) + 1); break;
      default: bytes.insert(at, bytes.substr(rng.below(bytes.size()), rng.below(40)));
    }
  }
  return bytes;
}

std::string read(const std::string& name) { return as_string(testing::read_file(kFormats + "/" + name)); }

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
  if (target.starts_with("wds")) return {read("wds/train-000.tar"), read("wds/pax.tar"), read("wds/gnu.tar")};
  if (target == "json_fields")
    return {"{\"image\": \"a.jpg\", \"label\": 3, \"meta\": {\"class\": \"\\u00e4\"}, \"x\": [1, null, -2.5e3]}"};
  if (target == "tfds_info") return {read("tfds/toy/1.0.0/dataset_info.json"), read("tfds/toy/array/1.0.0/dataset_info.json")};
  if (target == "tfds_features") return {read("tfds/toy/1.0.0/features.json")};
  if (target == "tfds_split") return {"train[10%:90%]+validation[:-3]", "test"};
  if (target == "braces") return {"a{00..12}b{x,y}", "{1..3}"};
  if (target == "lines") return {"{\"a\": 1}\r\n\n{\"b\": 2}\n  \nlast"};
  if (target == "tokenizer_json") return {read("../text/gpt2.json"), read("../text/clip.json")};
  if (target == "image") {
    const std::string images = TESSERA_SOURCE_DIR "/tests/data/images/";
    return {as_string(testing::read_file(images + "exif_5.jpg")), as_string(testing::read_file(images + "rgb.png")),
            as_string(testing::read_file(images + "lossless.webp"))};
  }
  return {encode_extents({{0, 10}, {300, 70000}, {70300, 0}})};
}

TEST(FormatFuzz, DamagedFilesGiveAResultOrAnError) {
  for (const auto& [name, target] : fuzz::targets()) {
    SCOPED_TRACE(name);
    Rng rng(4, hash_name(name));
    int64_t taken = 0, refused = 0;
    for (const std::string& seed : seeds(name)) {
      ASSERT_TRUE(target(seed)) << "the good file is not taken";
      const int count = seed.size() > 100'000 ? rounds() / 4 + 1 : rounds() * 4;
      for (int i = 0; i < count; ++i) (target(mutate(seed, rng)) ? taken : refused) += 1;
    }
    EXPECT_GT(refused, 0);
    // Behind checksums little is taken that was damaged; with them put right, or without any, some must be.
    const std::string text(name);
    EXPECT_TRUE(taken > 0 || text == "tfrecord" || text == "array_record" || text == "wds");
  }
}

}  // namespace
}  // namespace tessera::data
