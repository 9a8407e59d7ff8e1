// Tokenizers and rows of ids against the libraries that own them (tools/references/formats/text.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/error.h"
#include "data/text/added_tokens.h"
#include "data/text/byte_bpe.h"
#include "data/text/charsmap.h"
#include "data/text/text_encoder.h"
#include "image/image_testing.h"
#include "support/paths.h"

namespace tessera::data {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kReferences = tessera::testing::source_path("tests/references/text/");
constexpr const char* kSentencePieces[] = {"unigram.model", "bpe.model"};

const Json& references() {
  static const Json json = [] {
    std::ifstream file(kReferences + "texts.json");
    return Json::parse(file);
  }();
  return json;
}

std::shared_ptr<const Tokenizer> open(const std::string& name) { return open_tokenizer(kReferences + name); }

std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(Tokenizer, SentencePieceGivesTheLibrarysIds) {
  const Json& json = references();
  for (const std::string name : kSentencePieces) {
    const auto tokenizer = open(name);
    for (size_t i = 0; i < json["texts"].size(); ++i) {
      const auto text = json["texts"][i].get<std::string>();
      const auto ids = ids_of(*tokenizer, text);
      EXPECT_EQ(ids, json["ids"][name][i].get<std::vector<int32_t>>()) << name << ": " << text;
      EXPECT_EQ(tokenizer->decode(ids), json["decoded"][name][i].get<std::string>()) << name << ": " << text;
    }
    for (size_t i = 0; i < json["bytes"].size(); ++i) {
      const std::string text = from_hex(json["bytes"][i].get<std::string>());
      EXPECT_EQ(ids_of(*tokenizer, text), json["byte_ids"][name][i].get<std::vector<int32_t>>()) << name << ": " << i;
    }
  }
}

// "red</w>circle</w>" -> "red circle"
std::string words_apart(const std::string& text) {
  std::string out;
  size_t begin = 0;
  for (size_t end; (end = text.find("</w>", begin)) != std::string::npos; begin = end + 4) {
    if (begin > 0) out += ' ';
    out.append(text, begin, end - begin);
  }
  if (begin > 0 && begin < text.size()) out += ' ';
  return out.append(text, begin);
}

TEST(Tokenizer, ByteLevelBpeGivesTheLibrarysIds) {
  const Json& json = references();
  for (const std::string name : {"gpt2.json", "clip.json"}) {
    const auto tokenizer = open(name);
    for (size_t i = 0; i < json["texts"].size(); ++i) {
      const auto text = json["texts"][i].get<std::string>();
      const auto ids = ids_of(*tokenizer, text);
      EXPECT_EQ(ids, json["ids"][name][i].get<std::vector<int32_t>>()) << name << ": " << text;
      // The ends of CLIP's words are spaces, which the library leaves as they are spelled.
      const std::string decoded = words_apart(json["decoded"][name][i].get<std::string>());
      EXPECT_EQ(tokenizer->decode(ids), decoded) << name << ": " << text;
    }
  }
}

TEST(Tokenizer, ByteLevelBpeTakesEveryByte) {
  const auto tokenizer = open("gpt2.json");
  EXPECT_FALSE(tokenizer->bos());
  EXPECT_EQ(tokenizer->eos(), 416);
  EXPECT_EQ(tokenizer->vocabulary(), 417);
  EXPECT_EQ(open("clip.json")->bos(), 672);
  std::string text(256, ' ');
  for (size_t i = 0; i < 128; ++i) text[i] = static_cast<char>(i);
  EXPECT_EQ(tokenizer->decode(ids_of(*tokenizer, text)), text);
  EXPECT_EQ(tokenizer->decode(ids_of(*tokenizer, "a\xff.")), "a\xef\xbf\xbd.");
  for (const char letter : {'a', ' ', '!'}) {
    const std::string run(100'000, letter);
    EXPECT_EQ(tokenizer->decode(ids_of(*tokenizer, run)), run);
  }
}

TEST(Tokenizer, SentencePieceKnowsItsMarks) {
  const auto unigram = open("unigram.model"), bpe = open("bpe.model");
  EXPECT_FALSE(unigram->bos());
  EXPECT_EQ(unigram->eos(), 1);
  EXPECT_EQ(unigram->find("<pad>"), 0);
  EXPECT_EQ(unigram->find("<unk>"), 2);
  EXPECT_EQ(unigram->piece(1), "</s>");
  EXPECT_EQ(bpe->bos(), 0);
  EXPECT_FALSE(bpe->find("<pad>"));
  EXPECT_EQ(bpe->find(bpe->piece(300)), 300);
  EXPECT_EQ(bpe->vocabulary(), 480);
  EXPECT_NE(bpe->fingerprint(), unigram->fingerprint());
  EXPECT_EQ(bpe->fingerprint(), open("bpe.model")->fingerprint());
}

Eos eos_named(const std::string& name) { return name == "no" ? Eos::kNo : name == "yes" ? Eos::kYes : Eos::kSticky; }

TEST(TextEncoder, RowsAreBigVisions) {
  for (const Json& row : references()["rows"]) {
    const TextEncoderOptions options{row["length"], eos_named(row["eos"]), row["bos"], row["lower"], row["pad"]};
    const TextEncoder encoder(open(row["model"]), options);
    const auto text = row["text"].get<std::string>();
    std::vector<int32_t> ids(static_cast<size_t>(options.length), -1);
    const size_t all = ids_of(encoder.tokenizer(), options.lower ? ascii_lower(text) : text).size() +
                       static_cast<size_t>(options.bos) + static_cast<size_t>(options.eos != Eos::kNo);
    EXPECT_EQ(encoder.encode(text, ids.data()), all <= ids.size()) << row;
    EXPECT_EQ(ids, row["ids"].get<std::vector<int32_t>>()) << row;
  }
}

TEST(TextEncoder, DecodesUpToTheEnd) {
  const TextEncoder encoder(open("unigram.model"), {16, Eos::kSticky, false, true, 0});
  std::vector<int32_t> ids(16);
  ASSERT_TRUE(encoder.encode("A small RED circle", ids.data()));
  EXPECT_EQ(encoder.decode(ids), "a small red circle");
  ids.back() = ids.front();  // after the end
  EXPECT_EQ(encoder.decode(ids), "a small red circle");
}

std::shared_ptr<const Tokenizer> changed_tokenizer(const Json& changes) {
  std::ifstream file(kReferences + "gpt2.json");
  Json json = Json::parse(file);
  json.merge_patch(changes);
  return make_byte_bpe("changed.json", json.dump(), {});
}

std::string encode_error(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  try {
    tokenizer.encode(text, ids);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.message();
  }
}

Json split_at(const std::string& regex) {
  return {{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}}}};
}

// Time and memory for one text are bounded whatever tokenizer.json says.
TEST(Tokenizer, RegularExpressionsThatTryForEverAreStopped) {
  const std::string text(2000, 'a');
  for (const char* regex : {"(a+)+b", "(a|a)*b", "(a|aa)+$b", "(.*)*x"}) {
    EXPECT_THAT(encode_error(*changed_tokenizer(split_at(regex)), text),
                AllOf(HasSubstr(regex), HasSubstr("takes too many steps")));
  }
  EXPECT_EQ(encode_error(*changed_tokenizer(split_at("[a-z]+")), std::string(1 << 20, 'a')), "");
  EXPECT_EQ(encode_error(*changed_tokenizer(Json::object()), std::string(200'000, 'a') + std::string(200'000, ' ')), "");
}

TEST(Tokenizer, TextsThatGrowWithoutEndAreStopped) {
  const Json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const auto times = [&](size_t count) {
    return changed_tokenizer({{"normalizer", {{"type", "Sequence"}, {"normalizers", std::vector<Json>(count, twice)}}}});
  };
  EXPECT_EQ(encode_error(*times(4), "aaa"), "");
  EXPECT_THAT(encode_error(*times(60), "aaa"), HasSubstr("makes more than 16777216 characters of a text"));
  EXPECT_THROW(times(64), Error);
  const Json long_one = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1 << 20, 'b')}};
  EXPECT_THAT(encode_error(*changed_tokenizer({{"normalizer", long_one}}), std::string(1000, 'a')),
              HasSubstr("makes more than"));
}

TEST(Tokenizer, ManyAddedTokensTakeNoTimeSquared) {
  Json tokens = Json::array();
  for (int i = 0; i < 20'000; ++i) tokens.push_back({{"content", fmt::format("<{}>", i)}, {"id", 700 + i}, {"special", true}});
  const auto tokenizer = changed_tokenizer({{"added_tokens", tokens}});
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "<17>";
  std::vector<int32_t> ids;
  tokenizer->encode(text, ids);
  EXPECT_EQ(ids, std::vector<int32_t>(50'000, 717));
}

TEST(AddedTokens, TheFirstAndLongestIsFound) {
  AddedTokens tokens;
  tokens.add("<a>", 1);
  tokens.add("<a>b", 2);
  tokens.add("a>bc", 3);
  tokens.add("<a>", 4);
  const auto found = [&](std::string_view text, size_t from) {
    const AddedTokens::Found one = tokens.find(text, from);
    return std::tuple(one.begin, one.end, one.id);
  };
  EXPECT_EQ(found("x<a>", 0), std::tuple(1u, 4u, 1));
  EXPECT_EQ(found("x<a>bc", 0), std::tuple(1u, 5u, 2));
  EXPECT_EQ(found("x<a>bc", 2), std::tuple(2u, 6u, 3));
  EXPECT_EQ(found("x<a", 0), std::tuple(3u, 0u, 0));
  EXPECT_EQ(found("", 0), std::tuple(0u, 0u, 0));
  EXPECT_EQ(AddedTokens().find("abc", 0).begin, 3u);
}

// The library reads where a damaged table of its model leads.
TEST(Tokenizer, SentencePieceTablesAreChecked) {
  for (const char* name : kSentencePieces) {
    std::ifstream file(kReferences + name, std::ios::binary);
    const std::string model{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(charsmaps_are_sound(model)) << name;
    EXPECT_FALSE(charsmaps_are_sound(model.substr(0, model.size() - 1))) << name;
  }
  // normalizer_spec { precompiled_charsmap: the size of a trie of 256 units, those, a text }
  const auto model_of = [](const std::function<void(std::vector<uint32_t>&)>& change, const std::string& texts) {
    std::vector<uint32_t> units(256);
    units[0] = 1 << 10 | 1 << 8;  // offset 1, a leaf at 1
    units[1] = 1u << 31;          // the text at 0
    change(units);
    std::string map(4 + 4 * units.size(), '\0');
    const auto bytes = static_cast<uint32_t>(4 * units.size());
    std::memcpy(map.data(), &bytes, 4);
    std::memcpy(map.data() + 4, units.data(), bytes);
    map += texts;
    std::string spec, proto;
    protozero::pbf_writer(spec).add_bytes(2, map);
    protozero::pbf_writer(proto).add_message(3, spec);
    return proto;
  };
  const auto as_it_is = [](std::vector<uint32_t>&) {};
  const std::string text("b\0", 2);
  EXPECT_TRUE(charsmaps_are_sound(model_of(as_it_is, text)));
  EXPECT_FALSE(charsmaps_are_sound(model_of(as_it_is, "b")));
  EXPECT_FALSE(charsmaps_are_sound(model_of(as_it_is, "")));
  EXPECT_FALSE(charsmaps_are_sound(model_of([](auto& units) { units[0] = 1u << 20; }, text)));
  EXPECT_FALSE(charsmaps_are_sound(model_of([](auto& units) { units[1] = 1u << 31 | 2; }, text)));
  EXPECT_FALSE(charsmaps_are_sound(model_of([](auto& units) { units.resize(255); }, text)));
  // 'a' leads outside.
  EXPECT_FALSE(charsmaps_are_sound(model_of([](auto& units) { units[1 ^ 'a'] = 'a' | 1u << 30; }, text)));
  EXPECT_TRUE(charsmaps_are_sound(model_of([](auto& units) { units[1 ^ 'a'] = 'b' | 1u << 30; }, text)));
}

TEST(Tokenizer, MistakesAreExplained) {
  const auto message = [](const std::string& path) {
    try {
      open_tokenizer(path, "data.pp");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
      return std::string(error.what());
    }
    return std::string("opened");
  };
  const image::testing::TempDir dir;
  EXPECT_THAT(message(dir / "none.model"), HasSubstr("the tokenizer's model cannot be read"));
  EXPECT_THAT(message(dir / "none.model"), HasSubstr("--> data.pp"));
  for (const std::string text : {"", "no model", "\x0a\x05"}) {
    image::testing::write_file(dir / "bad.model", {text.begin(), text.end()});
    EXPECT_THAT(message(dir / "bad.model"), HasSubstr("is no SentencePiece model"));
  }
  std::ifstream file(kReferences + "gpt2.json");
  const Json good = Json::parse(file);
  const auto changed = [&](const std::string& place, const Json& value) {
    Json json = good;
    json[Json::json_pointer(place)] = value;
    const std::string text = json.dump();
    image::testing::write_file(dir / "bad.json", {text.begin(), text.end()});
    return message(dir / "bad.json");
  };
  EXPECT_EQ(changed("/version", "1.0"), "opened");
  EXPECT_THAT(changed("/normalizer", {{"type", "BertNormalizer"}}),
              HasSubstr("the normalizer {\"type\":\"BertNormalizer\"} is not"));
  EXPECT_THAT(changed("/pre_tokenizer/type", "Metaspace"), HasSubstr("the pre-tokenizer {"));
  EXPECT_THAT(changed("/model/type", "WordPiece"), HasSubstr("its model is no byte-level BPE"));
  EXPECT_THAT(changed("/model/merges/0", {"zz", "e"}), HasSubstr("the merge [\"zz\",\"e\"] names pieces that are not there"));
  EXPECT_THAT(changed("/model/vocab/a", -3), HasSubstr("has the id -3"));
  EXPECT_THAT(changed("/model/vocab/a", 1e70), HasSubstr("the piece `a` has the id 1e+70"));
  EXPECT_THAT(changed("/added_tokens/0/id", 1.5), HasSubstr("has the id 1.5"));
  EXPECT_THAT(changed("/added_tokens/0/lstrip", true), HasSubstr("has `lstrip`, which is not known"));
  EXPECT_THAT(changed("/model", 3), HasSubstr("is no tokenizer.json"));
  const std::string deep = "{\"normalizer\": " + std::string(100'000, '[');
  image::testing::write_file(dir / "deep.json", {deep.begin(), deep.end()});
  EXPECT_THAT(message(dir / "deep.json"), HasSubstr("nests more than 64 levels deep"));
  // A token that the normalizer takes away would be found everywhere, for ever.
  Json empty = good;
  empty["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "gone"}}}, {"content", ""}};
  empty["added_tokens"][0]["content"] = "gone";
  empty["added_tokens"][0]["normalized"] = true;
  const std::string text = empty.dump();
  image::testing::write_file(dir / "empty.json", {text.begin(), text.end()});
  EXPECT_THAT(message(dir / "empty.json"), HasSubstr("is empty once normalized"));
}

}  // namespace
}  // namespace tessera::data
