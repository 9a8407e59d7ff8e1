// Text ops of chains, and their rows of ids in batches.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/loader/loader.h"
#include "data/loader/token_rows.h"
#include "data/transform/pp_op.h"
#include "image/image_testing.h"
#include "support/paths.h"

namespace tessera::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Json = nlohmann::json;

const std::string kReferences = tessera::testing::source_path("tests/references/text/");
const std::string kModel = kReferences + "unigram.model";
const std::string kImageOps = "decode | resize(8)";

std::string tokenize(const std::string& more) { return fmt::format("tokenize({}, model={})", more, kModel); }
Pp chain(const std::string& ops, PpUse use = PpUse::kTrain) { return Pp(kImageOps + " | " + ops, use, "data.pp"); }

std::string chain_error(const std::string& ops) {
  try {
    chain(ops);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--> data.pp"));
    return error.what();
  }
  return "accepted";
}

// The ids of the chain's first array.
std::vector<int32_t> run(const Pp& pp, const std::vector<TextValues>& texts, const SampleKey& key = {}) {
  std::vector<std::vector<int32_t>> ids;
  std::vector<int32_t*> rows;
  for (const TokenField& field : pp.token_fields()) ids.emplace_back(static_cast<size_t>(field.length), -1);
  for (auto& row : ids) rows.push_back(row.data());
  int64_t cut = 0;
  EXPECT_FALSE(pp.run_texts(texts, key, rows.data(), cut));
  return ids.at(0);
}

std::string text_of(const Pp& pp, const std::vector<int32_t>& ids) { return pp.token_fields()[0].encoder->decode(ids); }

TEST(PpText, AChainTellsItsArrays) {
  const Pp pp = chain("lower(caption) | flip_lr | value_range | " + tokenize("12, key=caption") + " | " +
                      tokenize("5, key=title, to=name, eos=no, pad=3"));
  EXPECT_THAT(pp.text_inputs(), ElementsAre("caption", "title"));
  ASSERT_EQ(pp.token_fields().size(), 2u);
  const TokenField &labels = pp.token_fields()[0], &name = pp.token_fields()[1];
  EXPECT_EQ(labels.name, "labels");
  EXPECT_EQ(labels.length, 12);
  EXPECT_EQ(labels.vocabulary, labels.encoder->tokenizer().vocabulary());
  EXPECT_EQ(labels.pad, 0);
  EXPECT_EQ(name.name, "name");
  EXPECT_EQ(name.length, 5);
  EXPECT_EQ(name.pad, 3);
  EXPECT_FALSE(labels == name);
  EXPECT_TRUE(labels == chain(tokenize("12, key=other")).token_fields()[0]);
  EXPECT_FALSE(labels == chain(tokenize("12, key=other, lower=false")).token_fields()[0]);
  EXPECT_THAT(chain("flip_lr").text_inputs(), IsEmpty());
}

TEST(PpText, OpsWorkOnNamedTexts) {
  const Pp pp = chain("lower(a) | copy(a, b) | lower(key=c, to=d) | " + tokenize("16, key=b, lower=false"));
  EXPECT_THAT(pp.text_inputs(), ElementsAre("a", "c"));
  EXPECT_EQ(text_of(pp, run(pp, {{"A RED Circle"}, {"x"}})), "a red circle");
  const Pp lowered = chain(tokenize("16"));
  EXPECT_EQ(text_of(lowered, run(lowered, {{"A RED Circle"}})), "a red circle");
  EXPECT_EQ(run(lowered, {{""}}), run(lowered, {TextValues{}}));  // no text is an empty one
}

TEST(PpText, NamesMayBeKeptAndDropped) {
  const Pp dropped = chain(tokenize("4, to=x") + " | " + tokenize("6, to=labels") + " | drop(x)");
  ASSERT_EQ(dropped.token_fields().size(), 1u);
  EXPECT_EQ(dropped.token_fields()[0].length, 6);
  EXPECT_EQ(run(dropped, {{"a red circle"}}).back(), 0);
  const Pp kept = chain(tokenize("4, to=x") + " | " + tokenize("6, to=y") + " | keep('image', \"y\", label)");
  ASSERT_EQ(kept.token_fields().size(), 1u);
  EXPECT_EQ(kept.token_fields()[0].name, "y");
  EXPECT_THAT(chain_error("keep(label)"), HasSubstr("the image must stay"));
  EXPECT_THAT(chain_error("keep"), HasSubstr("it names nothing"));
  EXPECT_THAT(chain_error("keep(image) | lower(a)"), HasSubstr("the text `a` was dropped before"));
  EXPECT_THAT(chain_error("drop(a) | lower(a)"), HasSubstr("the text `a` was dropped before"));
  EXPECT_THAT(chain_error("drop(image)"), HasSubstr("`image` is the image"));
  EXPECT_EQ(chain_error("keep(image, a) | lower(a)"), "accepted");
}

TEST(PpText, MistakesAreExplained) {
  EXPECT_THAT(chain_error("tokenize(8)"), HasSubstr("model"));
  EXPECT_THAT(chain_error("tokenize(max_len=8, model=none.model)"),
              AllOf(HasSubstr("unknown argument `max_len`"), HasSubstr("did you mean `length`?")));
  EXPECT_THAT(chain_error(tokenize("8, inkey=text")), HasSubstr("did you mean `key`?"));
  EXPECT_THAT(chain_error("tokenize(8, model=none.model)"),
              AllOf(HasSubstr("the tokenizer's model cannot be read"), HasSubstr("tessera data tokenizer")));
  EXPECT_THAT(chain_error(tokenize("0")), HasSubstr("`length` must be"));
  EXPECT_THAT(chain_error(tokenize("8, eos=maybe")), HasSubstr("`eos` is yes, no or sticky, not `maybe`"));
  EXPECT_THAT(chain_error(tokenize("8, bos=true")), HasSubstr("no piece for the beginning"));
  EXPECT_THAT(chain_error(tokenize("8, pad=<blank>")), HasSubstr("no piece `<blank>`"));
  EXPECT_THAT(chain_error(tokenize("8, pad=400")), HasSubstr("`pad` must be one of the model's ids, 0 to"));
  EXPECT_THAT(chain_error(tokenize("8") + " | " + tokenize("9")), HasSubstr("there is an array of ids `labels` already"));
  EXPECT_THAT(chain_error(tokenize("8") + " | lower(labels)"), HasSubstr("an array of ids by now"));
  EXPECT_THAT(chain_error("lower(image)"), HasSubstr("`image` is the image"));
}

TEST(PpText, ChoiceIsDrawnFromTheKey) {
  const Pp chosen = chain("choice(captions, to=text) | " + tokenize("8"), PpUse::kEval),
           direct = chain(tokenize("8, key=captions"));
  const TextValues captions{"a red circle", "a blue square", "a green triangle"};
  for (const Pp* pp : {&chosen, &direct}) {
    std::map<std::string, int> counts;
    for (uint64_t sample = 0; sample < 600; ++sample) {
      const SampleKey key{7, 1, sample};
      const auto ids = run(*pp, {captions}, key);
      EXPECT_EQ(ids, run(*pp, {captions}, key));
      ++counts[text_of(*pp, ids)];
    }
    ASSERT_EQ(counts.size(), 3u);
    for (const auto& [text, count] : counts) EXPECT_NEAR(count, 200, 4 * 11.5) << text;  // 4 standard deviations
  }
  int64_t cut = 0;
  std::vector<int32_t> ids(8);
  int32_t* row = ids.data();
  const image::SampleError failed = chosen.run_texts({{}}, {}, &row, cut);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->reason, "it has no text `captions` to choose");
}

using Texts = std::map<std::string, std::vector<std::string>>;

// The texts `to` after the op `text` alone, or why there are none.
std::vector<std::string> change(const std::string& text, const Texts& from, const std::string& to, const SampleKey& key = {}) {
  static const std::vector<const PpOpKind*> kinds = {
#define PP_OP(object) &object,
#include "data/transform/pp.def"
#undef PP_OP
  };
  const Call call = parse_call(text, "data.pp");
  CallReader reader(call, "data.pp");
  const std::unique_ptr<PpOp> op = (*std::ranges::find(kinds, call.name, &PpOpKind::name))->make(reader);
  reader.finish();
  PpShape shape;
  op->infer(shape, reader);
  std::vector<std::string> names;
  std::vector<TextValues> values;
  for (const auto& [name, texts] : from) {
    names.push_back(name);
    values.emplace_back(texts.begin(), texts.end());
  }
  const std::vector<TokenField> none;
  PpTexts texts(names, values, none, nullptr);
  if (const image::SampleError failed = dynamic_cast<PpTextOp&>(*op).change(texts, key)) return {"failed", failed->reason};
  return texts.get(to);
}

TEST(PpText, OpsAreBigVisions) {
  const auto reference = Json::parse(std::ifstream(kReferences + "big_vision_ops.json"));
  ASSERT_EQ(reference["cases"].size(), 18u);
  for (const Json& one : reference["cases"]) {
    EXPECT_EQ(change(one["call"], one["texts"].get<Texts>(), one["to"]), one["result"].get<std::vector<std::string>>())
        << one["call"];
  }
}

// The number of a sample's class is a text where the source has none of that name.
TEST(PpText, LabelsAreTexts) {
  const image::testing::TempDir dir;
  const std::string lines = R"({"image": "x", "label": "cat", "caption": "red"})"
                            "\n"
                            R"({"image": "x", "label": "owl", "caption": "red"})"
                            "\n",
                    table = "1 red\n0 red\nowl red\n";
  image::testing::write_file(dir / "lines.jsonl", {lines.begin(), lines.end()});
  image::testing::write_file(dir / "table.txt", {table.begin(), table.end()});
  image::testing::write_file(dir / "x", {'x'});
  const Pp pp = chain("strfmt(\"{label} {caption}\", to=both) | lookup(" + (dir / "table.txt") + ", key=both, to=number)");
  const auto numbers = [&](const std::string& arguments) {
    const auto source = make_source("jsonl(" + (dir / "lines.jsonl") + arguments + ")");
    TokenRows rows(pp, *source);
    std::vector<int32_t> out;
    Sample sample;
    for (int64_t i = 0; i < source->size(); ++i) {
      EXPECT_FALSE(source->read(i, sample));
      out.push_back(rows.make(sample, {}) ? -1 : rows.row(0)[0]);
    }
    return out;
  };
  EXPECT_THAT(numbers(", text=caption"), ElementsAre(1, 0));
  EXPECT_THAT(numbers(", text=[caption, label]"), ElementsAre(-1, 2));
  EXPECT_THROW(numbers(", text=caption, label=none"), Error);
}

TEST(PpText, LookupIsBigVisions) {
  const auto reference = Json::parse(std::ifstream(kReferences + "big_vision_ops.json"));
  const image::testing::TempDir dir;
  for (const Json& one : reference["lookup"]) {
    const auto content = one["file"].get<std::string>(), separator = one["sep"].get<std::string>();
    image::testing::write_file(dir / "table.txt", {content.begin(), content.end()});
    const std::string more = separator.empty() ? "" : fmt::format(", sep='{}'", separator);
    const Pp pp = chain(fmt::format("lookup({}, key=name, to=number{})", dir / "table.txt", more), PpUse::kEval);
    const TokenField& field = pp.token_fields().at(0);
    EXPECT_EQ(field.name, "number");
    EXPECT_EQ(field.length, 1);
    EXPECT_EQ(field.pad, field.vocabulary - 1);
    for (const auto& [text, number] : one["texts"].items()) {
      int64_t cut = 0;
      int32_t id = -1;
      int32_t* row = &id;
      const image::SampleError failed = pp.run_texts({{text}}, {}, &row, cut);
      EXPECT_EQ(failed.has_value(), number == -1) << text;  // there is no such id here: the sample is left out
      EXPECT_EQ(id, number.get<int32_t>()) << text;
      if (failed) continue;
      const Tokenizer& table = field.encoder->tokenizer();
      EXPECT_EQ(table.find(field.encoder->decode({&id, 1})), id);  // several texts may have one number
    }
  }
  EXPECT_THAT(chain_error("lookup(none.txt)"), HasSubstr("none.txt"));
  image::testing::write_file(dir / "table.txt", {'a', '\n', 'a', '\n'});
  EXPECT_THAT(chain_error("lookup(" + (dir / "table.txt") + ")"), HasSubstr("its text `a` stands twice"));
  EXPECT_THAT(chain_error("lookup(" + (dir / "table.txt") + ", sep=' ')"), HasSubstr("its line 1 is no text"));
  image::testing::write_file(dir / "table.txt", {});
  EXPECT_THAT(chain_error("lookup(" + (dir / "table.txt") + ")"), HasSubstr("its file is empty"));
}

// Each subset of a size as likely as the others, in the order of the texts.
TEST(PpText, ChoiceTakesSeveral) {
  const Texts four = {{"a", {"0", "1", "2", "3"}}, {"b", {"w", "x", "y", "z"}}, {"c", {"0"}}};
  std::map<std::vector<std::string>, int> counts;
  for (uint64_t sample = 0; sample < 4000; ++sample) {
    const SampleKey key{3, 1, sample};
    const auto taken = change("choice(a, n=[1, 3], to=t)", four, "t", key);
    EXPECT_TRUE(std::ranges::is_sorted(taken));
    ++counts[taken];
    EXPECT_EQ(change("choice(a, n=2)", four, "a", key).size(), 2u);
  }
  ASSERT_EQ(counts.size(), 4u + 6u + 4u);
  double chi_square = 0;
  for (const auto& [taken, count] : counts) {
    const double wanted = 4000.0 / 3 / (taken.size() == 2 ? 6 : 4);
    chi_square += (count - wanted) * (count - wanted) / wanted;
  }
  EXPECT_LT(chi_square, 34.5);  // 13 degrees of freedom, one in a thousand
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const SampleKey key{3, 1, sample};
    const std::string both = "choice([a, b], n=2, to=[p, q])";
    const auto p = change(both, four, "p", key), q = change(both, four, "q", key);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(q[i], four.at("b")[static_cast<size_t>(std::stoi(p[i]))]);
  }
  EXPECT_THAT(change("choice(a, n=9, fewer=true)", four, "a"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(change("choice(a, n=9)", four, "a"), ElementsAre("failed", "it has 4 texts `a`, and 9 are chosen"));
  EXPECT_THAT(change("choice([a, c])", four, "a"), ElementsAre("failed", "it has 4 texts `a` and 1 `c`"));
  EXPECT_THAT(change("choice(d, fewer=true)", {{"d", {}}}, "d"), IsEmpty());
  EXPECT_THAT(chain_error("choice(a, n=0)"), HasSubstr("`n` is how many texts to choose, and is `0`"));
  EXPECT_THAT(chain_error("choice(a, n=[3, 1])"), HasSubstr("[least, most]"));
  EXPECT_THAT(chain_error("choice([a, b], to=c)"), HasSubstr("2 texts become 1"));
}

TEST(PpText, ChoiceNoReplacementShowsAllBeforeOneAgain) {
  const Texts texts = {{"a", {"0", "1", "2"}}, {"b", {"x", "y", "z"}}, {"none", {}}};
  std::map<std::string, int> orders;
  for (uint64_t sample = 0; sample < 600; ++sample) {
    for (uint64_t round = 0; round < 2; ++round) {
      std::string order;
      for (uint64_t epoch = 3 * round; epoch < 3 * round + 3; ++epoch)
        order += change("choice_no_replacement(a, to=t)", texts, "t", {5, epoch, sample}).at(0);
      ++orders[order];
    }
  }
  ASSERT_EQ(orders.size(), 6u);  // the permutations: none shows one twice
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 200, 4 * 12.9) << order;  // 4 standard deviations
  const std::string both = "choice_no_replacement([a, b])";
  for (uint64_t epoch = 0; epoch < 6; ++epoch) {
    const SampleKey key{5, epoch, 1};
    EXPECT_EQ(change(both, texts, "b", key).at(0)[0] - 'x', change(both, texts, "a", key).at(0)[0] - '0');
  }
  EXPECT_THAT(change("choice_no_replacement(none)", texts, "none"), ElementsAre("failed", "it has no text `none` to choose"));
}

TEST(PpText, TemplatesAreChecked) {
  EXPECT_THAT(chain_error("strfmt(\"a {b\")"), HasSubstr("a lone `{`"));
  EXPECT_THAT(chain_error("strfmt(\"a } b\")"), HasSubstr("a lone `}`"));
  EXPECT_THAT(chain_error("strfmt(\"a {} b\")"), HasSubstr("`{}` names no text"));
  EXPECT_THAT(chain_error("strfmt(\"a {b:3} b\")"), HasSubstr("without a format"));
  EXPECT_THAT(chain_error("concat([])"), HasSubstr("it names nothing"));
  const Pp pp = chain("strfmt(\"{a} of {b}\") | " + tokenize("32"));
  EXPECT_THAT(pp.text_inputs(), ElementsAre("a", "b"));
  EXPECT_EQ(text_of(pp, run(pp, {{"a red circle"}, {"a blue square"}})), "a red circle of a blue square");
  EXPECT_THAT(change("strfmt(\"{a}{b}\")", {{"a", {"1", "2"}}, {"b", {"1", "2", "3"}}}, "text"),
              ElementsAre("failed", "it has 2 texts `a` and 3 `b`"));
}

TEST(PpText, SeveralTextsBecomeRows) {
  const Pp one = chain(tokenize("8, key=captions, pad=3")), all = chain(tokenize("8, key=captions, pad=3, texts=3")),
           fewer = chain(tokenize("8, key=captions, pad=3, texts=3, fewer=true"));
  EXPECT_EQ(all.token_fields()[0].length, 24);
  std::vector<int32_t> three, two;
  for (const char* text : {"a red circle", "a blue square", "a green triangle"}) {
    const std::vector<int32_t> ids = run(one, {{text}});
    three.insert(three.end(), ids.begin(), ids.end());
  }
  two.assign(three.begin(), three.begin() + 16);
  two.resize(24, 3);
  EXPECT_EQ(run(all, {{"a red circle", "a blue square", "a green triangle"}}), three);
  EXPECT_EQ(run(fewer, {{"a red circle", "a blue square", "a green triangle"}}), three);
  EXPECT_EQ(run(fewer, {{"a red circle", "a blue square"}}), two);
  EXPECT_EQ(run(fewer, {{}}), std::vector<int32_t>(24, 3));

  int64_t cut = 0;
  std::vector<int32_t> ids(24);
  int32_t* row = ids.data();
  const image::SampleError few = all.run_texts({{"a red circle", "a blue square"}}, {}, &row, cut);
  ASSERT_TRUE(few);
  EXPECT_EQ(few->reason, "it has 2 texts `captions`, and 3 are tokenized");
  EXPECT_TRUE(fewer.run_texts({{"a", "b", "c", "d"}}, {}, &row, cut));
}

// Seven pictures with captions; the third is no picture, the fifth has a long text.
struct Captions {
  Captions() {
    std::ofstream lines(dir / "captions.jsonl");
    for (int i = 0; i < 7; ++i) {
      const std::string name = std::to_string(i) + ".png";
      const auto png = image::testing::png_bytes(image::testing::photo(9, 9, static_cast<uint32_t>(i)));
      image::testing::write_file(dir / name, i == 2 ? std::vector<uint8_t>{'x'} : png);
      const std::string text = i == 4       ? "a red circle left of a blue square above a green triangle"
                               : i % 2 == 0 ? "a red"
                                            : "a blue";
      lines << fmt::format("{{\"image\": \"{}\", \"caption\": \"{}\", \"all\": [\"a\", \"b\"]}}\n", name, text);
    }
    lines.close();
    source = make_source("jsonl(" + (dir / "captions.jsonl") + ", text=[caption, all])");
  }
  image::testing::TempDir dir;
  std::shared_ptr<const Source> source;
};

std::shared_ptr<const Pp> shared(const std::string& ops, PpUse use) {
  return std::make_shared<const Pp>(kImageOps + " | " + ops, use);
}

TEST(PpText, BatchesHoldIds) {
  const Captions data;
  LoaderOptions options;
  options.batch = 4;
  const auto pp = shared(tokenize("10, key=caption, pad=3"), PpUse::kEval);
  EvalLoader loader({data.source, pp, {}}, options);
  std::vector<std::string> texts;
  while (const auto batch = loader.next()) {
    ASSERT_EQ(batch->token_fields().size(), 1u);
    EXPECT_EQ(batch->token_fields()[0], pp->token_fields()[0]);
    for (int64_t row = 0; row < batch->rows(); ++row) {
      const std::vector<int32_t> ids(batch->tokens(0) + row * 10, batch->tokens(0) + row * 10 + 10);
      if (batch->mask()[row] == 0) {
        EXPECT_THAT(ids, ::testing::Each(3));
      } else {
        texts.push_back(pp->token_fields()[0].encoder->decode(ids));
      }
    }
  }
  EXPECT_EQ(texts.size(), 6u);
  EXPECT_EQ(texts.front(), "a red");
  EXPECT_EQ(texts[2], "a blue");
  EXPECT_EQ(texts[3].substr(0, 5), "a red");
  EXPECT_EQ(loader.stats().cut_texts, 1);
}

TEST(PpText, TrainingDoesNotDependOnThreads) {
  const Captions data;
  const auto rows = [&](int threads, int64_t start) {
    LoaderOptions options;
    options.batch = 3;
    options.seed = 11;
    options.threads = threads;
    options.start_batch = start;
    TrainLoader loader({{data.source, shared("choice(all) | flip_lr | " + tokenize("4, key=all"), PpUse::kTrain), {}}},
                       options);
    std::vector<int32_t> ids;
    for (int64_t i = start; i < 12; ++i) {
      const Batch batch = loader.next();
      if (i >= 5) ids.insert(ids.end(), batch.tokens(0), batch.tokens(0) + 12);
    }
    return ids;
  };
  EXPECT_EQ(rows(1, 0), rows(3, 5));
}

TEST(PpText, TextOpsChangeNothingAboutTheImage) {
  const std::vector<uint8_t> file = image::testing::png_bytes(image::testing::photo(20, 20));
  const Pp plain("decode | random_crop(8) | flip_lr", PpUse::kTrain),
      with("decode | lower(a) | random_crop(8) | flip_lr", PpUse::kTrain);
  PpScratch scratch;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    std::vector<uint8_t> one(plain.image_bytes()), other(plain.image_bytes());
    std::vector<uint8_t> padded = file;
    padded.resize(file.size() + 64);
    ASSERT_FALSE(plain.run({padded.data(), file.size()}, {1, 2, sample}, scratch, one.data()));
    ASSERT_FALSE(with.run({padded.data(), file.size()}, {1, 2, sample}, scratch, other.data()));
    EXPECT_EQ(one, other);
  }
}

TEST(PpText, ASourceWithoutTheTextIsRefused) {
  const Captions data;
  const auto message = [&](const Source& source) {
    try {
      find_texts(chain(tokenize("4, key=captoin")), source, "eval.val.data.pp");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message(*data.source), AllOf(HasSubstr("reads the text `captoin`, which `"), HasSubstr("did you mean `caption`?"),
                                           HasSubstr("--> eval.val.data.pp")));
  const auto plain = make_source("jsonl(" + (data.dir / "captions.jsonl") + ")");
  EXPECT_THAT(message(*plain), HasSubstr("it has no texts: name them in the source's call with text=…"));
}

}  // namespace
}  // namespace tessera::data
