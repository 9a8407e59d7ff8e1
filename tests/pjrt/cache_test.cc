#include "pjrt/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <set>

#include "base/error.h"
#include "pjrt/pjrt_testing.h"

namespace tessera::pjrt {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTwice = R"(module @twice {
  func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %b = stablehlo.add %a, %a : tensor<2xf32>
    return %b : tensor<2xf32>
  }
})";

// Sets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            (std::string("tessera_cache_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    config_ = root_.string() + "_config";
    fs::remove_all(root_);
    fs::remove_all(config_);
    home_.emplace("XDG_CONFIG_HOME", config_.c_str());
  }
  void TearDown() override {
    home_.reset();
    fs::remove_all(root_);
    fs::remove_all(config_);
  }

  CompileReport compile(const ExecutableCache& cache) {
    CompileReport report;
    const auto client = cpu_client();
    const Executable twice = compile_cached(*client, kTwice, {}, cache, &report);
    Buffer a = upload<float>(*client, {1, 2}, DType::kF32, {2});
    EXPECT_THAT(twice.run(std::array{&a})[0].to_host<float>(), ElementsAre(2, 4));
    return report;
  }
  std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  fs::path root_, config_;
  std::optional<Variable> home_;
};

TEST_F(Cache, TheSecondCompileIsARead) {
  const ExecutableCache cache((root_ / "deep/er").string());
  const CompileReport first = compile(cache);
  EXPECT_FALSE(first.cached);
  EXPECT_EQ(first.reason, "not in the cache");
  EXPECT_EQ(first.not_kept, "");
  EXPECT_GT(first.seconds, 0);
  const CompileReport second = compile(cache);
  EXPECT_TRUE(second.cached);
  EXPECT_EQ(second.reason, "");
  EXPECT_EQ(std::distance(fs::directory_iterator(cache.directory()), {}), 1) << "no temporary file is left";
}

// As processes of a launch do, and runs of a sweep.
TEST_F(Cache, WhoComesWhileOneCompilesWaitsAndLoads) {
  const ExecutableCache cache(root_.string());
  const auto client = cpu_client();
  const Hash128 key = cache_key(*client, kTwice, {});
  bool waited = true;
  auto turn = cache.await_turn(key, waited);
  EXPECT_FALSE(waited);
  auto second = std::async(std::launch::async, [&] { return compile(cache); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout) << "it did not wait";
  EXPECT_EQ(cache.keep(key, client->compile(kTwice).serialize()), "");
  turn.reset();
  EXPECT_TRUE(second.get().cached);
  EXPECT_EQ(std::distance(fs::directory_iterator(cache.directory()), {}), 1) << "no lock is left";
  // Another program's turn is its own.
  turn = cache.await_turn(key, waited);
  const auto other = cache.await_turn({key.high, key.low + 1}, waited);
  EXPECT_TRUE(turn && other && !waited);
}

TEST_F(Cache, EveryDamageIsAMissAndIsMended) {
  const ExecutableCache cache(root_.string());
  compile(cache);
  const Hash128 key = cache_key(*cpu_client(), kTwice, {});
  const std::string path = cache.path(key);
  const std::string whole = read(path);
  ASSERT_GT(whole.size(), 100u);
  const auto flipped = [&](size_t at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  const std::string seal = "damaged or not yours: its seal does not fit";
  const std::pair<std::string, std::string> damaged[] = {
      {"", "damaged: shorter than its header"},
      {whole.substr(0, 63), "damaged: shorter than its header"},
      {whole.substr(0, 64), "damaged: cut short"},
      {whole.substr(0, whole.size() - 1), "damaged: cut short"},
      {whole + "x", "damaged: cut short"},
      {flipped(whole.size() - 1), seal},
      {flipped(64), seal},
      {flipped(0), "of another format version"},
      {flipped(7), "of another format version"},
      {flipped(8), "another program's"},
      {flipped(24), "damaged: cut short"},
      {flipped(32), seal},
      {flipped(63), seal},
  };
  for (const auto& [bytes, fault] : damaged) {
    write(path, bytes);
    const CompileReport report = compile(cache);
    EXPECT_FALSE(report.cached);
    EXPECT_EQ(report.reason, "the cache entry is " + fault);
    EXPECT_TRUE(compile(cache).cached) << "the entry was replaced";
  }
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

TEST_F(Cache, OnlyThisUserMayReadAndWriteIt) {
  const mode_t before = umask(0);
  const ExecutableCache cache((root_ / "deep/er").string());
  EXPECT_EQ(cache.keep({1, 2}, "payload"), "");
  umask(before);
  EXPECT_EQ(mode_of(root_ / "deep/er"), 0700u);
  EXPECT_EQ(mode_of(cache.path({1, 2})), 0600u);
  EXPECT_EQ(mode_of(config_ / "tessera/seal.key"), 0600u);
}

// Whoever may write to the directory may put machine code there: it is neither read nor written, and the run goes on.
TEST_F(Cache, OneThatOthersMayWriteToIsNotUsed) {
  const ExecutableCache cache(root_.string());
  compile(cache);
  ASSERT_TRUE(compile(cache).cached);
  for (const mode_t mode : {0777, 01777, 0770}) {
    ASSERT_EQ(chmod(root_.c_str(), mode), 0);
    const CompileReport report = compile(cache);
    EXPECT_FALSE(report.cached);
    EXPECT_THAT(report.reason, HasSubstr("others may write to `" + root_.string()));
    EXPECT_THAT(report.not_kept, HasSubstr("others may write to `" + root_.string()));
  }
  ASSERT_EQ(chmod(root_.c_str(), 0700), 0);
  EXPECT_TRUE(compile(cache).cached);
}

TEST_F(Cache, AnotherUsersIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const ExecutableCache cache(root_.string());
  compile(cache);
  const std::string entry = cache.path(cache_key(*cpu_client(), kTwice, {}));
  ASSERT_EQ(chown(entry.c_str(), 12345, 12345), 0);
  EXPECT_THAT(compile(cache).reason, HasSubstr("belongs to user 12345"));
  EXPECT_TRUE(compile(cache).cached) << "the entry was replaced by one of this user's";
  ASSERT_EQ(chown(root_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(compile(cache).reason, HasSubstr("belongs to user 12345"));
}

// Payload, size and key as the format says, but made without this user's key.
TEST_F(Cache, AnEntryThatThisUserDidNotSealIsAMiss) {
  const ExecutableCache cache(root_.string());
  const Hash128 key{1, 2};
  cache.keep(key, "machine code of this user");
  const std::string mine = read(cache.path(key));
  {
    const fs::path elsewhere = config_ / "attacker";
    const Variable other("XDG_CONFIG_HOME", elsewhere.c_str());
    cache.keep(key, "machine code of an attack");
    EXPECT_TRUE(cache.find(key).payload);
  }
  EXPECT_EQ(read(cache.path(key)).size(), mine.size());
  EXPECT_THAT(cache.find(key).reason, HasSubstr("not yours: its seal does not fit"));
  write(cache.path(key), mine);
  EXPECT_EQ(cache.find(key).payload, "machine code of this user");
}

TEST_F(Cache, ALinkInAnEntrysPlaceIsNotFollowed) {
  const ExecutableCache cache(root_.string());
  cache.keep({1, 2}, "payload");
  fs::rename(cache.path({1, 2}), root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", cache.path({1, 2}));
  EXPECT_THAT(cache.find({1, 2}).reason, HasSubstr("cannot open"));
}

TEST_F(Cache, WithoutAKeyNothingIsKept) {
  const ExecutableCache cache(root_.string());
  write(config_.string(), "a file where the directory should be");
  const CompileReport report = compile(cache);
  EXPECT_THAT(report.not_kept, HasSubstr(config_.string()));
}

TEST_F(Cache, AnEntryOfAnotherProgramIsAMiss) {
  const ExecutableCache cache(root_.string());
  const Hash128 one{1, 2}, other{3, 4};
  EXPECT_EQ(cache.keep(one, "payload"), "");
  EXPECT_EQ(cache.find(one).payload, "payload");
  fs::rename(cache.path(one), cache.path(other));
  EXPECT_EQ(cache.find(other).reason, "the cache entry is another program's");
  cache.remove(other);
  EXPECT_EQ(cache.find(other).reason, "not in the cache");
}

TEST_F(Cache, WhatThePluginRefusesIsCompiled) {
  const ExecutableCache cache(root_.string());
  const Hash128 key = cache_key(*cpu_client(), kTwice, {});
  cache.keep(key, "sound file, foreign payload");
  const CompileReport report = compile(cache);
  EXPECT_FALSE(report.cached);
  EXPECT_THAT(report.reason, HasSubstr("the plugin refused the cache entry: PJRT_Executable_DeserializeAndLoad"));
  EXPECT_TRUE(compile(cache).cached);
}

TEST_F(Cache, LeastRecentlyUsedGoFirst) {
  const ExecutableCache cache(root_.string(), 3000);
  const Hash128 keys[] = {{0, 1}, {0, 2}, {0, 3}};
  const std::string payload(1200, 'p');
  const auto set_age = [&](const Hash128& key, int hours) {
    fs::last_write_time(cache.path(key), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  cache.keep(keys[0], payload);
  set_age(keys[0], 3);
  cache.keep(keys[1], payload);
  set_age(keys[1], 2);
  EXPECT_TRUE(cache.find(keys[0]).payload) << "a read makes it the newest";
  write(cache.path({9, 9}) + ".tmp-1", "left by a killed process");
  fs::last_write_time(cache.path({9, 9}) + ".tmp-1", fs::file_time_type::clock::now() - std::chrono::hours(9));
  write((root_ / "notes.txt").string(), std::string(9000, 'n'));
  cache.keep(keys[2], payload);
  EXPECT_TRUE(cache.find(keys[0]).payload);
  EXPECT_FALSE(cache.find(keys[1]).payload);
  EXPECT_TRUE(cache.find(keys[2]).payload);
  EXPECT_FALSE(fs::exists(cache.path({9, 9}) + ".tmp-1"));
  EXPECT_TRUE(fs::exists(root_ / "notes.txt")) << "only its own files";
  const ExecutableCache tiny(root_.string(), 10);
  tiny.keep(keys[1], payload);
  EXPECT_TRUE(tiny.find(keys[1]).payload) << "the newest stays whatever its size";
  EXPECT_FALSE(tiny.find(keys[0]).payload);
}

TEST_F(Cache, OneThatCannotBeWrittenIsNoReasonToStop) {
  write(root_.string(), "a file where the directory should be");
  const CompileReport report = compile(ExecutableCache(root_.string()));
  EXPECT_FALSE(report.cached);
  EXPECT_THAT(report.not_kept, HasSubstr(root_.string()));
}

TEST_F(Cache, OffMeansNothingIsWritten) {
  const CompileReport report = compile(ExecutableCache(""));
  EXPECT_EQ(report.reason, "the cache is off");
  EXPECT_EQ(report.not_kept, "");
}

TEST_F(Cache, DirectoryComesFromTheEnvironment) {
  const Variable xdg("XDG_CACHE_HOME", "/x"), home("HOME", "/h");
  {
    const Variable own("TESSERA_CACHE_DIR", "/own");
    EXPECT_EQ(ExecutableCache::standard().directory(), "/own");
  }
  {
    const Variable off("TESSERA_CACHE_DIR", "");
    EXPECT_FALSE(ExecutableCache::standard().enabled());
  }
  const Variable own("TESSERA_CACHE_DIR", nullptr);
  EXPECT_EQ(ExecutableCache::standard().directory(), "/x/tessera");
  const Variable no_xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(ExecutableCache::standard().directory(), "/h/.cache/tessera");
}

TEST_F(Cache, TheKeyHangsOnEverythingThatChangesTheCode) {
  const auto two_devices = Client::create(cpu_plugin(), {.cpu_device_count = 2});
  std::set<std::string> keys;
  keys.insert(to_string(cache_key(*cpu_client(), kTwice, {})));
  keys.insert(to_string(cache_key(*cpu_client(), std::string(kTwice) + " ", {})));
  keys.insert(to_string(cache_key(*cpu_client(), kTwice, {.use_shardy = false})));
  keys.insert(to_string(cache_key(*two_devices, kTwice, {})));
  {
    const Variable flags("XLA_FLAGS", "--xla_cpu_enable_fast_math=true");
    keys.insert(to_string(cache_key(*cpu_client(), kTwice, {})));
  }
  EXPECT_EQ(keys.size(), 5u);
  EXPECT_EQ(keys.count(to_string(cache_key(*cpu_client(), kTwice, {}))), 1u) << "the same question has the same key";
}

// The program of a plan may be the same text on slices that differ: v3:4x8 and v3:8x4, or h100:1x8 and h200:1x8.
TEST(PlanKey, HangsOnTheTargetAndTheProgram) {
  const auto key = [](const char* target, std::string_view program, const CompileOptions& options) {
    return to_string(plan_key(*cpu_plugin(), target, program, options));
  };
  const std::set<std::string> keys{key("v3:4x8", kTwice, {}), key("v3:8x4", kTwice, {}), key("v3:4x8", "another", {}),
                                   key("v3:4x8", kTwice, {.use_shardy = false})};
  EXPECT_EQ(keys.size(), 4u);
  EXPECT_EQ(keys.count(key("v3:4x8", kTwice, {})), 1u) << "the same question has the same key";
}

TEST(Hash, TellsApartWhatDiffersLittle) {
  EXPECT_EQ(to_string(hash128("")), to_string(hash128("")));
  std::set<std::string> seen;
  std::string text(64, 'a');
  seen.insert(to_string(hash128(text)));
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char bit : {1, 2, 64}) {
      text[i] = static_cast<char>(text[i] ^ bit);
      seen.insert(to_string(hash128(text)));
      text[i] = static_cast<char>(text[i] ^ bit);
    }
  }
  for (size_t size = 0; size < 64; ++size) seen.insert(to_string(hash128(std::string(size, '\0'))));
  EXPECT_EQ(seen.size(), 1 + 64 * 3 + 64u);
  EXPECT_NE(Hasher().add("ab").add("c").finish(), Hasher().add("a").add("bc").finish());
  EXPECT_EQ(to_string(Hash128{1, 0xabc}), "00000000000000010000000000000abc");
}

}  // namespace
}  // namespace tessera::pjrt
