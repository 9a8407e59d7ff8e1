// JSON is read by base/text/json.h alone, which bounds its depth and size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "support/paths.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

const fs::path kSources = testing::source_path("src");

// The calls of nlohmann's parser in C++ text: json::parse(…), Json::accept(…), ….
size_t parser_calls(const std::string& text) {
  size_t calls = 0;
  for (const std::string call : {"son::parse(", "son::accept(", "son::sax_parse(", "::from_cbor(", "::from_msgpack(",
                                 "::from_bson(", "::from_ubjson(", "::from_bjdata("}) {
    for (size_t at = 0; (at = text.find(call, at)) != std::string::npos; at += call.size()) ++calls;
  }
  return calls;
}

// The files of src/ whose text is chosen.
template <class Choose>
std::set<std::string> files_where(Choose&& choose) {
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(kSources)) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (choose(text)) found.insert(entry.path().lexically_relative(kSources).string());
  }
  return found;
}

TEST(JsonParser, IsCalledInOnePlace) {
  EXPECT_EQ(
      parser_calls("nlohmann::json::parse(text); Json::parse(text, nullptr, false); nlohmann::ordered_json::accept(text)"), 3u);
  EXPECT_THAT(files_where([](const std::string& text) { return parser_calls(text) > 0; }), ElementsAre("base/text/json.cc"))
      << "use read_json or parse_json of base/text/json.h";
}

// Who takes each token knows where it may stand, and builds no values, or small ones: nothing else bounds what is read.
TEST(JsonParser, FewReadTokenByToken) {
  EXPECT_THAT(files_where([](const std::string& text) { return text.find("read_json_events(") != std::string::npos; }),
              ElementsAre("base/text/json.cc", "base/text/json.h", "base/text/json_lists.cc",
                          "checkpoint/formats/safetensors_header.cc", "checkpoint/slices.cc"));
}

}  // namespace
}  // namespace tessera
