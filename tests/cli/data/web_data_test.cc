// Data, recipes and weights of web servers and of the Hugging Face Hub, on a server here.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "http/server.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The files of a folder below /, and as the data set `owner/set` of a Hub.
class FolderServer {
 public:
  explicit FolderServer(fs::path folder)
      : folder_(std::move(folder)), server_({}, [this](const http::Request& request) { return answer(request); }) {}
  std::string url() const { return fmt::format("http://127.0.0.1:{}", server_.port()); }
  std::map<std::string, std::string> environment() const { return {{"HF_ENDPOINT", url()}, {"no_proxy", "127.0.0.1"}}; }

 private:
  http::Response answer(const http::Request& request) const {
    const std::string tree = "/api/datasets/owner/set/tree/main/", resolve = "/datasets/owner/set/resolve/main/";
    if (request.path.starts_with(tree)) return list(request.path.substr(tree.size()));
    if (request.path.starts_with(resolve))
      return {.status = 302, .headers = {{"Location", "/" + request.path.substr(resolve.size())}}};
    const fs::path path = folder_ / request.path.substr(1);
    if (!fs::is_regular_file(path)) return {.status = 404};
    const std::string text = read_file(path), range = request.header("range").value_or("");
    if (range.empty()) return {.body = text};
    const size_t first = std::stoul(range.substr(6)), last = std::stoul(range.substr(range.find('-') + 1));
    const std::string body = text.substr(first, last - first + 1);
    return {.status = 206,
            .body = body,
            .headers = {{"Content-Range", fmt::format("bytes {}-{}/{}", first, first + body.size() - 1, text.size())}}};
  }

  http::Response list(const std::string& below) const {
    Json entries = Json::array();
    if (!fs::is_directory(folder_ / below)) return {.status = 404};
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / below)) {
      const std::string name = entry.path().lexically_relative(folder_).string();
      const bool folder = entry.is_directory();
      entries.push_back({{"type", folder ? "directory" : "file"}, {"path", name}, {"oid", name}});
      entries.back()["size"] = folder ? 0 : entry.file_size();
    }
    return {.type = "application/json", .body = entries.dump()};
  }

  fs::path folder_;
  http::Server server_;
};

TEST(WebData, IsTrainedOnAsFilesAre) {
  const TempFolder folder;
  write_images(folder / "web/train", 6);
  write_images(folder / "web/val", 2);
  write_file(folder / "recipe.toml", tiny_recipe());
  const FolderServer server(folder / "web");
  const auto run = [&](const std::vector<std::string>& args) { return run_program(args, folder.path(), server.environment()); };
  ASSERT_EQ(run({"data", "convert", "folder(web/train)", "--to", "tar", "--out", "web/set", "--shard-size", "1KiB"}).exit, 0);
  fs::copy(folder / "recipe.toml", folder / "web/recipe.toml");
  const auto train = [&](const std::string& name, const std::string& recipe, const std::string& data, const std::string& eval) {
    const Outcome outcome = run({"train", recipe, "--workdir", name, "data.source=" + data, "eval.val.data.source=" + eval});
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return read_file(folder / (name + "/summary.csv"));
  };
  const std::string shards = "/set/set-train-{000000..000001}.tar)";
  const std::string local = train("local", "recipe.toml", "wds(web" + shards, "folder(web/val)");
  EXPECT_FALSE(local.empty());
  EXPECT_EQ(
      train("web_run", server.url() + "/recipe.toml", "wds(" + server.url() + shards, "folder(hf://datasets/owner/set/val)"),
      local);
  const std::string hub = "hf://datasets/owner/set/set/set-train-*.tar";
  const Outcome check = run({"data", "check", "wds(" + hub + ")", "--json"});
  EXPECT_EQ(check.exit, 0) << check.err;
  EXPECT_EQ(check.json().at(0).at("sources").at(0).at("files"), 12);

  const Outcome missing = run({"data", "check", "wds(" + server.url() + "/none.tar)"});
  EXPECT_EQ(missing.exit, 3);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("none.tar`: the server answers 404"), HasSubstr("look at its name")));
  const Outcome unlisted = run({"data", "check", "wds(" + server.url() + "/set/*.tar)"});
  EXPECT_EQ(unlisted.exit, 3);
  EXPECT_THAT(unlisted.err, HasSubstr("web servers have no lists of their files"));
}

TEST(WebData, WeightsAreFetched) {
  const TempFolder folder;
  const std::string reference = testing::source_path("tests/references/timm_local_dir");
  fs::create_directories(folder / "web");
  fs::copy(reference, folder / "web/model");
  const FolderServer server(folder / "web");
  const auto logits = [&](const std::string& from, const std::string& image) {
    const Outcome outcome =
        run_program({"predict", "--from", from, image, "--json", "--logits", "--cache-dir", (folder / "cache").string()},
                    folder.path(), server.environment());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.json().at(0).at("logits");
  };
  const Json wanted = logits(reference, reference + "/image.png");
  EXPECT_EQ(logits(server.url() + "/model", server.url() + "/model/image.png"), wanted);
  EXPECT_EQ(logits("hf://datasets/owner/set/model", reference + "/image.png"), wanted);
  const Outcome none =
      run_program({"predict", "--from", server.url() + "/none", reference + "/image.png"}, folder.path(), server.environment());
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.err, HasSubstr("holds no config.json"));
}

}  // namespace
}  // namespace tessera::cli
