// Files of web servers and of the Hub's repositories, on a server here that answers as they do.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/server.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/servers/hugging_face.h"

namespace tessera::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kRepository = "/datasets/owner/photos";

// Files by path. /whole/… knows no ranges; /moved/… leads to /signed/N/…, which is good for some requests only, as storage behind the
// Hub is.
class Web {
 public:
  Web() : server_({.connections = 64}, [this](const http::Request& request) { return answer(request); }) {}
  std::string url(const std::string& path) const { return fmt::format("http://127.0.0.1:{}{}", server_.port(), path); }

  std::map<std::string, std::string> files;
  std::string etag = "\"one\"";
  std::string changed;  // Last-Modified; empty: it is not said
  std::string secret;   // of the Hub
  int signature = 0;    // that is good now
  int failures = 0;     // so many answers are 503
  int cut = 0;          // and so many too short
  size_t page = 2;      // entries of a listing's page
  std::vector<std::string> asked;

 private:
  http::Response answer(const http::Request& request) {
    const std::scoped_lock lock(mutex_);
    asked.push_back(request.path);
    if (failures > 0) return --failures, http::Response{.status = 503, .body = "busy"};
    std::string path = request.path;
    const std::string authorization = request.header("authorization").value_or("");
    if (path.starts_with("/api") || path.starts_with("/datasets")) {
      if (!secret.empty() && authorization != "Bearer " + secret) return {.status = 401};
      if (path.starts_with("/api")) return list(request);
      const std::string begin = fmt::format("{}/resolve/main/", kRepository);
      if (!path.starts_with(begin)) return {.status = 404};
      path = "/moved/" + path.substr(begin.size());
    }
    if (path.starts_with("/moved/")) {
      return {.status = 302,
              .headers = {{"Location", fmt::format("/signed/{}/{}", signature, path.substr(7))}, {"X-Linked-ETag", etag}}};
    }
    if (path.starts_with("/signed/")) {
      const size_t slash = path.find('/', 8);
      if (path.substr(8, slash - 8) != std::to_string(signature)) return {.status = 403};
      path = path.substr(slash);
    }
    const bool whole = path.starts_with("/whole/");
    if (whole) path = path.substr(6);
    const auto found = files.find(path);
    if (found == files.end()) return {.status = 404};
    return part(found->second, whole ? "" : request.header("range").value_or(""));
  }

  http::Response part(const std::string& text, const std::string& range) {
    http::Pairs version;
    if (!etag.empty()) version.emplace_back("ETag", etag);
    if (!changed.empty()) version.emplace_back("Last-Modified", changed);
    if (range.empty()) return {.body = text, .headers = version};
    const size_t first = std::stoul(range.substr(6)), last = std::stoul(range.substr(range.find('-') + 1));
    if (first >= text.size()) return {.status = 416, .headers = {{"Content-Range", fmt::format("bytes */{}", text.size())}}};
    std::string body = text.substr(first, last - first + 1);
    http::Pairs headers = version;
    headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", first, first + body.size() - 1, text.size()));
    if (cut > 0 && body.size() > 1) {
      --cut;
      body.resize(body.size() / 2);
    }
    return {.status = 206, .body = body, .headers = headers};
  }

  http::Response list(const http::Request& request) {
    const std::string begin = fmt::format("/api{}/tree/main/", kRepository);
    if (!request.path.starts_with(begin)) return {.status = 404};
    const std::string folder = request.path.substr(begin.size());
    std::vector<std::string> entries;
    for (const auto& [path, text] : files) {
      const std::string name = path.substr(1);
      if (!folder.empty() && !name.starts_with(folder + "/")) continue;
      entries.push_back(
          fmt::format(R"({{"type": "file", "path": "{}", "size": {}, "oid": "{:x}"}})", name, text.size(), text.size()));
    }
    if (entries.empty()) return {.status = 404};
    const size_t from = std::stoul(request.parameter("cursor").value_or("0"));
    std::string body;
    for (size_t i = from; i < std::min(from + page, entries.size()); ++i) body += (body.empty() ? "" : ", ") + entries[i];
    http::Response response{.type = "application/json", .body = "[" + body + "]"};
    if (from + page < entries.size()) {
      response.headers.emplace_back("Link",
                                    fmt::format("<{}?recursive=true&cursor={}>; rel=\"next\"", url(request.path), from + page));
    }
    return response;
  }

  std::mutex mutex_;
  http::Server server_;
};

class WebFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("no_proxy", "127.0.0.1", 1);
    for (int i = 0; i < 300'000; ++i) text_ += static_cast<char>(i * 7 + i / 251);
    web_.files = {{"/a.bin", text_}, {"/empty", ""}, {"/with space.txt", "hello"}};
  }
  static std::string read(const std::string& url) { return read_text(files_at(url), url); }
  static Error failure(const std::string& url) {
    try {
      read(url);
    } catch (const Error& error) {
      return error;
    }
    return Error(Exit::kDone, "none");
  }

  std::string text_;
  Web web_;
};

TEST_F(WebFiles, AreReadInParts) {
  for (const char* path : {"/a.bin", "/whole/a.bin", "/moved/a.bin"}) {
    const std::string url = web_.url(path);
    const auto file = files_at(url).open(url);
    ASSERT_EQ(file->size(), static_cast<int64_t>(text_.size())) << path;
    for (const auto& [offset, length] : {std::pair{0, 10}, std::pair{150'000, 100'000}, std::pair{299'990, 10}}) {
      std::string part(static_cast<size_t>(length), '\0');
      file->read(offset, std::as_writable_bytes(std::span(part)));
      EXPECT_TRUE(part == text_.substr(static_cast<size_t>(offset), part.size())) << path << offset;
    }
    std::byte behind{};
    EXPECT_THROW(file->read(300'000, {&behind, 1}), Error);
  }
  EXPECT_EQ(read(web_.url("/empty")), "");
  EXPECT_EQ(read(web_.url("/with space.txt")), "hello");
  EXPECT_EQ(read(web_.url("/with%20space.txt")), "hello");
  EXPECT_FALSE(files_at("http://").info(web_.url("/none")));
  EXPECT_EQ(files_at("http://").info(web_.url("/a.bin"))->size, 300'000);
}

TEST_F(WebFiles, FailuresThatPassAreTriedAgain) {
  web_.failures = 2;
  EXPECT_TRUE(read(web_.url("/a.bin")) == text_);
  web_.etag = "\"two\"", web_.cut = 2;
  EXPECT_TRUE(read(web_.url("/a.bin")) == text_);
  // What redirects led to is no longer good.
  web_.etag = "\"three\"";
  const std::string url = web_.url("/moved/a.bin");
  const auto file = files_at(url).open(url);
  ++web_.signature;
  std::string part(1000, '\0');
  file->read(5000, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, text_.substr(5000, 1000));
}

// Parts of two versions are no file.
TEST_F(WebFiles, AFileThatIsReplacedWhileItIsReadIsRefused) {
  const auto second_part = [&](const char* path, const std::function<void()>& meanwhile) -> std::string {
    web_.files["/a.bin"] = text_;
    const std::string url = web_.url(path);
    const auto file = files_at(url).open(url);
    std::byte part[10];
    file->read(0, part);
    meanwhile();
    try {
      file->read(200'000, part);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
      return error.what();
    }
    return "";
  };
  const auto replaced = HasSubstr("another version of it took its place while it was read");
  int number = 0;
  const auto another_tag = [&] { web_.etag = fmt::format("\"version {}\"", ++number); };
  for (const char* path : {"/a.bin", "/whole/a.bin", "/moved/a.bin"})
    EXPECT_THAT(second_part(path, another_tag), replaced) << path;
  EXPECT_THAT(second_part("/a.bin", [&] { web_.files["/a.bin"] += "more"; }), replaced);
  EXPECT_THAT(second_part("/a.bin", [&] { web_.files["/a.bin"].resize(1000); }), replaced);
  web_.changed = "Sat, 28 Nov 2026 10:00:00 GMT";
  EXPECT_EQ(second_part("/a.bin", another_tag), "") << "two machines have the same file";
  EXPECT_THAT(second_part("/a.bin",
                          [&] {
                            another_tag();
                            web_.changed = "Sat, 28 Nov 2026 10:00:01 GMT";
                          }),
              replaced);
  web_.etag.clear();
  EXPECT_THAT(second_part("/a.bin", [&] { web_.changed = "Sat, 28 Nov 2026 10:00:02 GMT"; }), replaced);
}

TEST_F(WebFiles, WhatCannotBeReadIsSaid) {
  const Error missing = failure(web_.url("/none"));
  EXPECT_EQ(missing.code(), Exit::kData);
  EXPECT_THAT(missing.what(), AllOf(HasSubstr("the server answers 404"), HasSubstr("look at its name")));
  EXPECT_THAT(failure("http://127.0.0.1:1/x").what(), HasSubstr("the server does not answer"));
  EXPECT_THROW(files_at("http://").list(web_.url("/")), Error);
  EXPECT_THROW(files_at("http://").create(web_.url("/new")), Error);
}

TEST_F(WebFiles, RepositoriesOfTheHubAreListedAndRead) {
  web_.files = {{"/data/a/1.png", "one"}, {"/data/a/2.png", "two"}, {"/data/b/3.png", text_}, {"/README.md", "read"}};
  web_.secret = "hf_secret";
  setenv("HF_ENDPOINT", web_.url("").c_str(), 1);
  setenv("HF_TOKEN", "hf_secret", 1);
  const std::string root = "hf://datasets/owner/photos";
  EXPECT_EQ(read(root + "/data/a/2.png"), "two");
  EXPECT_TRUE(read(root + "@main/data/b/3.png") == text_);
  std::map<std::string, int64_t> listed;
  list_objects(root + "/data", [&](const std::string& name, const ListedObject& object) {
    listed[name] = object.size;
    EXPECT_NE(object.version, 0);
  });
  const std::map<std::string, int64_t> wanted = {{"a/1.png", 3}, {"a/2.png", 3}, {"b/3.png", 300'000}};
  EXPECT_EQ(listed, wanted);
  EXPECT_TRUE(files_at(root).info(root + "/data")->directory);
  EXPECT_FALSE(files_at(root).info(root + "/none"));
  EXPECT_THAT(failure(root + "/none").what(), HasSubstr("404"));
  EXPECT_THAT(failure("hf://photos").what(), HasSubstr("names no repository of the Hub"));
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_THAT(failure(root + "/README.md").what(), HasSubstr("HF_HUB_OFFLINE forbids it"));
  for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE"}) unsetenv(name);
}

TEST(HubPath, IsReadAsHuggingFaceHubDoes) {
  const HubPath file = parse_hub_path("hf://datasets/owner/name@~parquet/default/train/0000.parquet");
  EXPECT_EQ(file.kind, "datasets");
  EXPECT_EQ(file.name, "owner/name");
  EXPECT_EQ(file.revision, "refs/convert/parquet");
  EXPECT_EQ(file.path, "default/train/0000.parquet");
  const HubPath model = parse_hub_path("hf://owner/name");
  EXPECT_EQ(model.kind, "models");
  EXPECT_EQ(model.revision, "main");
  EXPECT_EQ(model.path, "");
  for (const char* wrong : {"hf://", "hf://datasets", "hf://datasets/owner", "hf://datasets/owner/"})
    EXPECT_THROW(parse_hub_path(wrong), Error) << wrong;
}

}  // namespace
}  // namespace tessera::store
