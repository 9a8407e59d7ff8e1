// tessera plugin install and list, as a user calls them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PluginCommand, SaysWhatIsWrongWithACommand) {
  const TempFolder folder;
  fs::create_directories(folder / "wheels");
  const std::map<std::string, std::string> environment = {{"PIP_INDEX_URL", "http://me:secret@127.0.0.1:1/simple"},
                                                          {"XDG_DATA_HOME", folder.path() / "data"}};
  const auto says = [&](const std::vector<std::string>& words, int exit, const std::vector<std::string>& parts) {
    std::vector<std::string> all = {"plugin", "install"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run_program(all, folder.path(), environment);
    EXPECT_EQ(outcome.exit, exit);
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_THAT(outcome.err, Not(HasSubstr("secret")));
  };
  says({}, 2, {"takes one platform", "tessera plugin install tpu"});
  says({"cpu"}, 2, {"there is no plugin to install for `cpu`"});
  says({"tpuu"}, 2, {"did you mean `tpu`?"});
  says({"tpu"}, 3,
       {"the package index cannot be reached", "--> http://127.0.0.1:1/simple", "https_proxy",
        "pip download --no-deps libtpu=="});
  says({"cuda", "--from", "wheels"}, 3, {"`wheels` has no wheel of jax-cuda13-pjrt", "--> --from"});
}

TEST(PluginCommand, ListsWhatIsInstalled) {
  const TempFolder folder;
  const std::map<std::string, std::string> environment = {{"XDG_DATA_HOME", folder.path() / "data"}};
  const Outcome none = run_program({"plugin", "list"}, folder.path(), environment);
  EXPECT_EQ(none.exit, 0) << none.err;
  EXPECT_THAT(none.out, AllOf(HasSubstr("tpu   not installed: tessera plugin install tpu fetches libtpu "),
                              HasSubstr("cuda  not installed"), HasSubstr(" and 13 more wheels")));
  const fs::path tpu = folder / "data/tessera/plugins/tpu";
  write_file(tpu / "libtpu/libtpu.so", "a library");
  write_file(tpu / "installed.json", R"({"wheels": [{"name": "libtpu", "version": "0.0.1", "sha256": "00"}]})");
  const Outcome older = run_program({"plugin", "list"}, folder.path(), environment);
  EXPECT_THAT(older.out, AllOf(HasSubstr("libtpu 0.0.1 in " + tpu.string()), HasSubstr("; this program's is libtpu "),
                               HasSubstr("runs use " + (tpu / "libtpu/libtpu.so").string())));
  const Json json = run_program({"plugin", "list", "--json"}, folder.path(), environment).json().at(0);
  EXPECT_EQ(json["platform"], "tpu");
  EXPECT_EQ(json["installed"]["wheels"][0]["version"], "0.0.1");
  EXPECT_EQ(json["plugin"], (tpu / "libtpu/libtpu.so").string());
  EXPECT_EQ(json["pinned"][0]["sha256"].get<std::string>().size(), 64u);
}

}  // namespace
}  // namespace tessera::cli
