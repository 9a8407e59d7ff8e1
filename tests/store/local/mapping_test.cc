// Mapped files whose pages can't be read: the file is cut short, so that the system sends SIGBUS as it does for a bad sector.

#include "store/local/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <numeric>
#include <thread>

#include "store/file.h"
#include "store/temp_dir.h"

namespace tessera::store {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

constexpr size_t kPage = 4096, kPages = 64;

int sum(const Bytes& bytes) {
  return std::accumulate(bytes.data.begin(), bytes.data.end(), 0,
                         [](int s, std::byte b) { return s + std::to_integer<int>(b); });
}

struct Cut {
  TempDir dir;
  std::string path = dir / "file";
  Bytes bytes;
  explicit Cut(size_t pages_left) {
    testing::spill(path, std::string(kPages * kPage, '\1'));
    bytes = local_files().map(path);
    EXPECT_EQ(::truncate(path.c_str(), static_cast<off_t>(pages_left * kPage)), 0);
  }
};

TEST(Mapping, WhatIsReadableIsTheFile) {
  const Cut whole(kPages);
  EXPECT_EQ(sum(whole.bytes), static_cast<int>(kPages * kPage));
  EXPECT_TRUE(whole.bytes.readable());
  EXPECT_NO_THROW(whole.bytes.check());
}

TEST(Mapping, APageThatCannotBeReadIsZerosAndAnError) {
  const Cut cut(10);
  EXPECT_TRUE(cut.bytes.readable()) << "not asked for yet";
  EXPECT_EQ(sum(cut.bytes), static_cast<int>(10 * kPage)) << "zeros where the file ends";
  EXPECT_FALSE(cut.bytes.readable());
  try {
    cut.bytes.check();
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.number(), EIO);
    EXPECT_THAT(error.what(), HasSubstr("cannot read `" + cut.path + "`"));
  }
  const Bytes copy = cut.bytes;
  EXPECT_FALSE(copy.readable()) << "copies are of the same mapping";
  EXPECT_TRUE(local_files().map(cut.path).readable()) << "another mapping is another attempt";
}

TEST(Mapping, OthersAreNotConcerned) {
  const Cut cut(0);
  TempDir dir;
  testing::spill(dir / "sound", std::string(kPages * kPage, '\2'));
  const Bytes sound = local_files().map(dir / "sound");
  EXPECT_EQ(sum(cut.bytes), 0);
  EXPECT_FALSE(cut.bytes.readable());
  EXPECT_EQ(sum(sound), static_cast<int>(2 * kPages * kPage));
  EXPECT_TRUE(sound.readable());
}

TEST(Mapping, ManyThreadsMayMeetTheSamePages) {
  for (int round = 0; round < 20; ++round) {
    const Cut a(3), b(kPages);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        if (sum(a.bytes) > static_cast<int>(3 * kPage) || a.bytes.readable()) ++wrong;
        if (sum(b.bytes) != static_cast<int>(kPages * kPage) || !b.bytes.readable()) ++wrong;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Mapping, SmallFilesAreRead) {
  TempDir dir;
  testing::spill(dir / "small", "twelve bytes");
  const Bytes bytes = local_files().map(dir / "small");
  EXPECT_EQ(::truncate((dir / "small").c_str(), 0), 0);
  EXPECT_EQ(as_text(bytes.data), "twelve bytes");
  EXPECT_EQ(local_files().map(dir / "small").size(), 0u);
}

// A fault in memory that is no mapping of ours, and a signal that someone sent, still end the process.
// (By the signal; a sanitizer's handler, which was there before, reports it and exits.)
bool ended_badly(int status) { return status != 0; }

TEST(MappingDeathTest, OtherBusErrorsAreNotSwallowed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Cut cut(0);  // the handler is there
  TempDir dir;
  testing::spill(dir / "foreign", std::string(kPage, '\1'));
  EXPECT_EXIT(
      {
        const auto file = fopen((dir / "foreign").c_str(), "r+");
        const auto* memory = static_cast<const volatile char*>(mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fileno(file), 0));
        if (ftruncate(fileno(file), 0) == 0) _exit(memory[0]);
      },
      ended_badly, "");
  EXPECT_EXIT(raise(SIGBUS), ended_badly, "");
}

}  // namespace
}  // namespace tessera::store
