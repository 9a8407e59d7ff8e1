// A cache that others could have written: one line says so, and the run goes on without it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/run_program.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kReference = testing::source_path("tests/references/timm_local_dir");

TEST(UntrustedCache, IsSaidOnceAndLeftAlone) {
  const TempFolder folder;
  const std::string cache = folder / "shared";
  fs::create_directory(cache);
  ASSERT_EQ(chmod(cache.c_str(), 0777), 0);
  const std::vector<std::string> words = {"predict", "--from", kReference, kReference + "/image.png", "--json"};
  const Outcome refused = run_program(words, folder.path(), {{"TESSERA_CACHE_DIR", cache}});
  EXPECT_EQ(refused.exit, 0);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("note: the cache is not used: others may write to `" + cache + "`"),
                                 HasSubstr("chmod 700 " + cache)));
  EXPECT_EQ(refused.err.find("note:"), refused.err.rfind("note:"));
  EXPECT_TRUE(fs::is_empty(cache));
  EXPECT_EQ(refused.out, run_program(words, folder.path()).out);
}

// A user's own cache: files in it are the user's alone, and the key lies elsewhere.
TEST(UntrustedCache, OnesOwnIsMadePrivate) {
  const TempFolder folder;
  const std::string cache = folder / "cache", config = folder / "config";
  const std::vector<std::string> words = {"predict", "--from", kReference, kReference + "/image.png", "--json"};
  const std::map<std::string, std::string> environment = {{"TESSERA_CACHE_DIR", cache}, {"XDG_CONFIG_HOME", config}};
  EXPECT_EQ(run_program(words, folder.path(), environment).err, "");
  EXPECT_EQ(run_program(words, folder.path(), environment).err, "");
  constexpr fs::perms kOthers = fs::perms::group_all | fs::perms::others_all;
  for (const std::string& top : {cache, config + "/tessera"}) {
    EXPECT_EQ(fs::status(top).permissions() & kOthers, fs::perms::none) << top;
    ASSERT_FALSE(fs::is_empty(top));
    for (const auto& entry : fs::recursive_directory_iterator(top))
      EXPECT_EQ(entry.status().permissions() & kOthers, fs::perms::none) << entry.path();
  }
}

}  // namespace
}  // namespace tessera::cli
