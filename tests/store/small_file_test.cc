#include "store/small_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "store/temp_dir.h"

namespace tessera::store {
namespace {

using ::testing::HasSubstr;
using testing::spill;
using testing::TempDir;

TEST(SmallFile, ALargeOneIsRefusedByNameAndSize) {
  const TempDir directory;
  const std::string path = directory / "config.json";
  spill(path, "{}");
  EXPECT_EQ(read_small_file(local_files(), path), "{}");
  EXPECT_EQ(read_small_file(local_files(), path, 2), "{}");
  std::filesystem::resize_file(path, uint64_t{1} << 40);  // a hole, which memory does not hold
  try {
    read_small_file(local_files(), path);
    FAIL() << "it is a TiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    EXPECT_THAT(error.message(), HasSubstr("config.json` has 1.00 TiB, and such a file has 64.00 MiB at most"));
  }
}

TEST(SmallFile, OneThatIsNotThereIsAnErrorOfReading) {
  const TempDir directory;
  EXPECT_THROW(read_small_file(local_files(), directory / "nowhere"), IoError);
}

}  // namespace
}  // namespace tessera::store
