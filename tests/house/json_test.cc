// JSON is read by base/text/json.h alone, which bounds its depth and size.
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

TEST(JsonParser, IsCalledInOnePlace) {
  EXPECT_EQ(
      parser_calls("nlohmann::json::parse(text); Json::parse(text, nullptr, false); nlohmann::ordered_json::accept(text)"), 3u);
  // All but the first hand each token to a reader that knows where it may stand, and build no values, or small ones.
  const std::set<std::string> may = {"base/text/json.cc", "base/text/json_lists.cc", "checkpoint/formats/safetensors_header.cc",
                                     "checkpoint/slices.cc"};
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(kSources)) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (parser_calls(text) == 0) continue;
    const std::string name = entry.path().lexically_relative(kSources).string();
    EXPECT_TRUE(may.contains(name)) << name
                                    << " gives a text to nlohmann's parser: use read_json or parse_json of base/text/json.h";
    found.insert(name);
  }
  EXPECT_EQ(found, may);
}

}  // namespace
}  // namespace tessera
