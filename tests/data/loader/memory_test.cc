// Memory that the system refuses a decoder is no property of the file: it leaves as std::bad_alloc and ends the run, where a
// file over a limit is one that cannot be read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "image/codec/decode.h"
#include "image/image_testing.h"

namespace tessera::data {
namespace {

using image::testing::photo;
using ::testing::HasSubstr;
using File = std::vector<uint8_t>;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// The address space that this process may still take.
class MemoryLeft {
 public:
  explicit MemoryLeft(size_t bytes) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + bytes;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLeft() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

constexpr size_t kLeft = size_t{2} << 20;

// Ends the process with 0 where the decoder throws std::bad_alloc, since the system gives no more than kLeft, and then decodes
// other files as ever. The pixels have their memory before.
[[noreturn]] void decode_in_little_memory(const File& file, int width, int height) {
  image::Decoder decoder;
  image::Image image(width, height);
  bool refused = false;
  try {
    const MemoryLeft little(kLeft);
    (void)decoder.decode(file, image);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  for (const File& small : {image::testing::encode_jpeg(photo(64, 48), {.progressive = true}),
                            image::testing::png_bytes(photo(64, 48)), image::testing::encode_webp(photo(64, 48), true)}) {
    refused = refused && !decoder.decode(small, image);
  }
  std::_Exit(refused ? 0 : 1);
}

// In a process of its own: what this one freed before could be enough.
class DecoderMemory : public ::testing::Test {
 protected:
  DecoderMemory() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    // So that nothing is found in memory freed before: jemalloc gives it back at once.
    ::setenv("MALLOC_CONF", "retain:false,dirty_decay_ms:0,muzzy_decay_ms:0,thp:default", 1);
  }
};

image::Image black(int width, int height) {
  image::Image image(width, height);
  std::memset(image.row(0), 0, image.byte_count());
  return image;
}

// The header of a small JPEG changed to say another size: the coefficients are taken before any is read.
File progressive_jpeg_of(int width, int height) {
  File file = image::testing::encode_jpeg(photo(64, 64), {.progressive = true});
  for (size_t at = 2; at + 9 < file.size(); ++at) {
    if (file[at] != 0xFF || file[at + 1] != 0xC2) continue;
    file[at + 5] = static_cast<uint8_t>(height >> 8);
    file[at + 6] = static_cast<uint8_t>(height);
    file[at + 7] = static_cast<uint8_t>(width >> 8);
    file[at + 8] = static_cast<uint8_t>(width);
    break;
  }
  return file;
}

TEST_F(DecoderMemory, RefusedToLibjpegIsNoDamage) {
  EXPECT_EXIT(decode_in_little_memory(progressive_jpeg_of(4000, 4000), 4000, 4000), ::testing::ExitedWithCode(0), "");
}

TEST_F(DecoderMemory, RefusedToLibspngIsNoDamage) {
  constexpr int kWidth = 1'000'000;  // a row is more than is left, and two are kept
  EXPECT_EXIT(decode_in_little_memory(image::testing::png_bytes(black(kWidth, 1)), kWidth, 1), ::testing::ExitedWithCode(0),
              "");
}

TEST_F(DecoderMemory, RefusedToLibwebpIsNoDamage) {
  EXPECT_EXIT(decode_in_little_memory(image::testing::encode_webp(photo(1200, 1000), true), 1200, 1000),
              ::testing::ExitedWithCode(0), "");
}

#endif

// What the header asks for is judged first: the file's own fault.
TEST(DecoderLimits, OverTheLimitIsAFileThatCannotBeRead) {
  const image::DecodeLimits limits{.bytes = 1 << 20};
  image::Image image;
  for (const File& file : {image::testing::encode_jpeg(photo(900, 900), {.progressive = true}),
                           image::testing::png_bytes(photo(900, 900)), image::testing::encode_webp(photo(900, 900), true)}) {
    const image::SampleError failed = image::Decoder(limits).decode(file, image);
    ASSERT_TRUE(failed);
    EXPECT_THAT(failed->reason, HasSubstr("over the limit of 1.00 MiB"));
  }
}

}  // namespace
}  // namespace tessera::data
