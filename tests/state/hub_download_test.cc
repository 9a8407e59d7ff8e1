// Models fetched from a server that answers as the Hugging Face Hub does.
#include "state/hub_download.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "base/error.h"
#include "http/server.h"
#include "state/hub_cache.h"
#include "state/model_source.h"
#include "store/encoding/digest.h"
#include "store/file.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::state {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr const char* kCommit = "5c3f1b1a2d8e4f60718293a4b5c6d7e8f9012345";
constexpr const char* kModel = "timm/vit_tiny_patch16_224.augreg_in21k";
const char* const kVariables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",        "HF_ENDPOINT",
                                  "HF_TOKEN",     "HF_TOKEN_PATH",         "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"};

std::string sha256(const std::string& text) {
  return store::to_hex(store::Sha256().add(std::as_bytes(std::span(text))).finish());
}

// git hash-object
std::string git_hash(const std::string& text) {
  return store::to_hex(store::sha1({"blob ", std::to_string(text.size()), std::string(1, '\0'), text}));
}

// One model, in the form of the Hub's interface: a listing, and files behind a redirect.
class Hub {
 public:
  Hub() : server_({}, [this](const http::Request& request) { return answer(request); }) {
    for (const char* name : {"config.json", "model.safetensors"})
      files[name] = testing::slurp(testing::source_path("tests/references/timm_local_dir/") + name);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", server_.port()); }
  std::string listing() const {
    std::string out;
    for (const auto& [name, text] : files) {
      const std::string git = git_hash(text);
      const std::string lfs =
          name == "config.json" ? "null" : fmt::format(R"({{"sha256": "{}", "size": {}}})", sha256(text), text.size());
      out += fmt::format(R"({}{{"rfilename": "{}", "size": {}, "blobId": "{}", "lfs": {}}})", out.empty() ? "" : ", ", name,
                         text.size(), git, lfs);
    }
    return fmt::format(R"({{"id": "{}", "sha": "{}", "siblings": [{}]}})", kModel, kCommit, out);
  }

  std::map<std::string, std::string> files;
  std::string secret;                        // asked for where it is not empty
  int failures = 0;                          // so many requests of files fail before one is answered
  std::map<std::string, std::string> sends;  // in the place of a file's bytes
  std::vector<std::string> asked;            // path, and range

 private:
  http::Response answer(const http::Request& request) {
    const std::scoped_lock lock(mutex_);
    const std::string range = request.header("range").value_or("");
    asked.push_back(request.path + (range.empty() ? "" : " " + range));
    const bool known = secret.empty() || request.header("authorization") == "Bearer " + secret;
    if (!known || request.path.find(kModel) == std::string::npos)
      return {.status = 401, .body = "Invalid username or password."};
    if (request.path == fmt::format("/api/models/{}/revision/main", kModel))
      return {.type = "application/json", .body = listing()};
    if (request.path.starts_with("/api/"))
      return {.status = 404, .body = R"({"error": "Revision Not Found: Invalid rev id: v9"})"};
    const std::string begin = fmt::format("/{}/resolve/{}/", kModel, kCommit), store = fmt::format("/store/{}/", kModel);
    if (request.path.starts_with(begin)) {
      if (failures-- > 0) return {.status = 503, .body = "busy"};
      return {.status = 302, .headers = {{"Location", store + request.path.substr(begin.size())}}};
    }
    const std::string name = request.path.substr(store.size());
    const auto other = sends.find(name);
    const std::string& text = other == sends.end() ? files.at(name) : other->second;
    if (range.empty()) return {.body = text};
    return {.status = 206, .body = text.substr(std::stoul(range.substr(range.find('=') + 1)))};
  }

  std::mutex mutex_;
  http::Server server_;
};

class HubDownload : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) unsetenv(name);
    setenv("no_proxy", "127.0.0.1", 1);
    setenv("HF_HOME", dir_.path().c_str(), 1);
    setenv("HF_ENDPOINT", (hub_.url() + "/").c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  static std::string fetch(const std::string& name = kModel, const std::string& revision = "main") {
    return in_hub_cache(fmt::format("hub({}, revision={})", name, revision), "--from");
  }
  static Error failure(const std::string& name = kModel, const std::string& revision = "main") {
    try {
      fetch(name, revision);
    } catch (const Error& error) {
      return error;
    }
    return Error(Exit::kDone, "none");
  }
  std::string folder() const { return dir_ / ("hub/" + hub_folder(kModel)); }

  std::string blob(const std::string& name) const { return fmt::format("{}/blobs/{}", folder(), name); }

  testing::TempDir dir_;
  Hub hub_;
};

TEST_F(HubDownload, FetchesAModelOnce) {
  const std::string snapshot = fetch();
  EXPECT_EQ(snapshot, fmt::format("{}/snapshots/{}", folder(), kCommit));
  for (const auto& [name, text] : hub_.files) {
    EXPECT_EQ(testing::slurp(fmt::format("{}/{}", snapshot, name)), text);
    EXPECT_TRUE(fs::is_symlink(fmt::format("{}/{}", snapshot, name)));
  }
  EXPECT_EQ(testing::slurp(folder() + "/refs/main"), kCommit);
  EXPECT_TRUE(fs::exists(blob(sha256(hub_.files["model.safetensors"]))));
  EXPECT_TRUE(fs::exists(blob(git_hash(hub_.files["config.json"]))));
  EXPECT_EQ(load_model(fmt::format("hub({})", kModel)).pp,
            load_model(testing::source_path("tests/references/timm_local_dir")).pp);
  const size_t asked = hub_.asked.size();
  EXPECT_EQ(fetch(), snapshot);
  EXPECT_EQ(fetch(kModel, kCommit), snapshot);
  EXPECT_EQ(hub_.asked.size(), asked);
}

TEST_F(HubDownload, GoesOnWithWhatItHas) {
  const std::string& text = hub_.files["model.safetensors"];
  const std::string partial = blob(sha256(text) + ".incomplete");
  fs::create_directories(fs::path(partial).parent_path());
  testing::spill(partial, text.substr(0, 1000));
  EXPECT_EQ(testing::slurp(fetch() + "/model.safetensors"), text);
  EXPECT_EQ(hub_.asked.back(), fmt::format("/store/{}/model.safetensors bytes=1000-", kModel));
  EXPECT_FALSE(fs::exists(partial));
}

TEST_F(HubDownload, WhatIsDamagedIsFetchedAgain) {
  const std::string& text = hub_.files["model.safetensors"];
  const std::string partial = blob(sha256(text) + ".incomplete");
  fs::create_directories(fs::path(partial).parent_path());
  testing::spill(partial, std::string(1000, 'x'));
  hub_.failures = 2;
  EXPECT_EQ(testing::slurp(fetch() + "/model.safetensors"), text);
}

TEST_F(HubDownload, WhatStaysWrongIsNotTaken) {
  std::string wrong = hub_.files["model.safetensors"];
  wrong.back() ^= 1;
  hub_.sends["model.safetensors"] = wrong;
  const Error error = failure();
  EXPECT_EQ(error.code(), Exit::kData);
  EXPECT_THAT(error.what(), HasSubstr("its hash differs"));
  EXPECT_FALSE(fs::exists(fmt::format("{}/snapshots/{}/model.safetensors", folder(), kCommit)));
  hub_.sends["model.safetensors"] = "";  // ends at once
  EXPECT_THAT(failure().what(), HasSubstr("the server ended after 0 of"));
  hub_.sends.clear();
  EXPECT_EQ(testing::slurp(fetch() + "/config.json"), hub_.files["config.json"]);
}

TEST_F(HubDownload, ShardsComeWithTheirIndex) {
  const std::string weights = hub_.files["model.safetensors"];
  hub_.files.erase("model.safetensors");
  hub_.files["model.safetensors.index.json"] = R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})";
  hub_.files["model-00001-of-00002.safetensors"] = weights;
  hub_.files["model-00002-of-00002.safetensors"] = weights + " ";
  hub_.files["pytorch_model.bin"] = "not wanted";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fetch())) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_THAT(names, ElementsAre("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                 "model.safetensors.index.json"));
}

TEST_F(HubDownload, ATokenIsSent) {
  hub_.secret = "hf_secret";
  const Error refused = failure();
  EXPECT_EQ(refused.code(), Exit::kUsage);
  EXPECT_THAT(refused.what(), AllOf(HasSubstr(fmt::format("has no model `{}`", kModel)), HasSubstr("set HF_TOKEN")));
  testing::spill(dir_ / "token", "hf_secret\n");
  EXPECT_THAT(fetch(), HasSubstr(kCommit));
}

TEST_F(HubDownload, WhatTheHubLacksIsTold) {
  EXPECT_THAT(failure("somebody/else").what(), HasSubstr("has no model `somebody/else`, or does not give it to everybody"));
  EXPECT_THAT(failure("resnet50").what(), HasSubstr("timm's models have a tag there"));
  EXPECT_THAT(failure(kModel, "v9").what(), HasSubstr("has no revision v9"));
  hub_.files.erase("model.safetensors");
  EXPECT_THAT(failure().what(), HasSubstr("has no model.safetensors and no pytorch_model.bin"));
  hub_.files.erase("config.json");
  EXPECT_THAT(failure().what(), HasSubstr("has no config.json"));
}

TEST_F(HubDownload, NamesOfFilesLeadNowhere) {
  hub_.files["../../../escaped-pytorch_model.bin"] = "x";
  hub_.files["model-/../../escaped.safetensors"] = "x";
  fetch();
  for (const auto& entry : fs::recursive_directory_iterator(dir_.path()))
    EXPECT_EQ(entry.path().string().find("escaped"), std::string::npos);
}

TEST_F(HubDownload, OfflineMeansOffline) {
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    setenv(name, "on", 1);
    EXPECT_THAT(failure().what(), AllOf(HasSubstr("HF_HUB_OFFLINE forbids to fetch it"), HasSubstr("`hf download timm/")));
    unsetenv(name);
  }
  EXPECT_TRUE(hub_.asked.empty());
  setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
  const Error unreached = failure();
  EXPECT_EQ(unreached.code(), Exit::kUsage);
  EXPECT_THAT(unreached.what(), AllOf(HasSubstr("the Hub cannot be reached"), HasSubstr("`hf download timm/")));
}

}  // namespace
}  // namespace tessera::state
