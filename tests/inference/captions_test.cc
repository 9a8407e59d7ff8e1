// Captions that a model writes, token by token those of plain loops over big_vision's own model
// (tools/references/models/captions.py).

#include "inference/captions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/image_text/cappa.h"
#include "support/formula.h"
#include "support/paths.h"
#include "train/small_run.h"

namespace tessera::inference {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr int64_t kSide = 16, kImages = 6;
constexpr double kPenalty = 0.6;

const json& cases() {
  static const json all = json::parse(testing::slurp(testing::source_path("tests/references/captions.json")));
  return all;
}

std::vector<float> value_of(const std::string& name, const Dims& dims) {
  const int64_t count = element_count(dims);
  const std::string leaf = name.substr(name.rfind('/') + 1);
  if (leaf == "scale") return testing::formula_array(name, count, 0.2, 1);
  if (leaf == "embedding") return testing::formula_array(name, count);
  if (leaf == "pos_embed") return testing::formula_array(name, count, 0.5);
  return testing::formula_array(name, count,
                                leaf == "kernel" ? std::sqrt(3 / static_cast<double>(dims[dims.size() - 2])) : 0.05);
}

state::LoadedModel load_case(const json& m) {
  models::CapPaOptions o;
  o.width = m["emb_dim"], o.depth = m["num_layers"], o.heads = m["num_heads"], o.mlp_dim = m["mlp_dim"];
  o.patch = m["patches"][0];
  o.posemb = m.value("posemb_type", "learn") == "learn" ? "learned" : "sincos2d";
  o.decoder_depth = m.value("decoder_num_layers", 0), o.decoder_width = m.value("decoder_emb_dim", 0);
  o.decoder_heads = m.value("decoder_num_heads", 0), o.decoder_mlp_dim = m.value("decoder_mlp_dim", 0);
  o.decoder_bias = m["decoder_bias"];
  o.masked_pred_prob = m["masked_pred_prob"], o.masking_ratio = m.value("masking_ratio", 0.0);
  models::InputShape input;
  input.height = input.width = kSide;
  input.tokens = m["seq_len"], input.vocabulary = m["vocab_size"];
  state::LoadedModel loaded;
  loaded.model = std::make_unique<models::CapPa>(models::resolve(o, input));
  loaded.layout = state::param_layout(models::parameters(*loaded.model));
  for (size_t i = 0; i < loaded.layout.params; ++i) {
    const state::StateEntry& entry = loaded.layout.entries[i];
    const std::vector<float> values = value_of(entry.name.substr(std::string_view("params/").size()), entry.type.dims);
    const auto bytes = std::as_bytes(std::span(values));
    loaded.params.push_back(store::own_bytes({bytes.begin(), bytes.end()}));
  }
  return loaded;
}

std::vector<uint8_t> image(int64_t i) {
  std::vector<uint8_t> bytes;
  const std::string name = "captions/" + std::to_string(i);
  for (uint64_t at = 0; at < kSide * kSide * 3; ++at)
    bytes.push_back(static_cast<uint8_t>(testing::formula_bits(name, at) >> 24));
  return bytes;
}

using Written = std::vector<std::vector<CaptionTokens>>;

// Of the images in this order, in batches of `batch`.
Written write(const state::LoadedModel& model, const CaptionOptions& options, int64_t batch = kImages,
              const std::vector<int64_t>& order = {0, 1, 2, 3, 4, 5}) {
  data::PixelScale pixels;
  pixels.scale.fill(static_cast<float>(1 / 127.5)), pixels.offset.fill(-1);
  const train::DeviceOptions device = testing::small_run().options("").device;
  CaptionWriter writer(train::open_client(device), model, pixels, batch, device, options);
  Written all;
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(batch)) {
    const size_t count = std::min(order.size() - begin, static_cast<size_t>(batch));
    std::vector<uint8_t> rows;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<uint8_t> one = image(order[begin + i]);
      rows.insert(rows.end(), one.begin(), one.end());
    }
    rows.resize(static_cast<size_t>(batch * kSide * kSide * 3));
    for (auto& captions : writer.write(rows, count)) all.push_back(std::move(captions));
  }
  return all;
}

CaptionOptions beams_of(int64_t beams, bool cache = true) {
  return {.search = {.beams = beams, .length_penalty = kPenalty}, .cache = cache, .eos = 1};
}

class Captions : public ::testing::TestWithParam<std::string> {
 protected:
  const json& of_ = cases()[GetParam()];
  state::LoadedModel model_ = load_case(of_["model"]);
};

// A batch that is not full, and no cache, change nothing.
TEST_P(Captions, GreedyIsTheLoopOverBigVisionsModel) {
  ASSERT_GT(of_["margin"], 1e-3) << "a choice hangs on rounding";
  for (const auto& [batch, cache] : {std::pair{6, true}, {4, true}, {6, false}}) {
    const Written got = write(model_, beams_of(1, cache), batch);
    for (size_t i = 0; i < kImages; ++i) {
      EXPECT_EQ(json(got[i][0].ids), of_["greedy"][i]) << "image " << i << ", batch " << batch << ", cache " << cache;
    }
  }
}

TEST_P(Captions, BeamSearchIsTheLoopOverBigVisionsModel) {
  for (const auto& [batch, cache] : {std::pair{6, true}, {4, true}, {6, false}}) {
    const Written got = write(model_, beams_of(3, cache), batch);
    for (size_t i = 0; i < kImages; ++i) {
      const json& want = of_["beam3"][i];
      ASSERT_EQ(got[i].size(), want.size()) << "image " << i;
      for (size_t b = 0; b < want.size(); ++b) {
        EXPECT_EQ(json(got[i][b].ids), want[b]["tokens"]) << "image " << i << ", batch " << batch << ", cache " << cache;
        EXPECT_NEAR(got[i][b].score, want[b]["score"], 2e-4);
      }
    }
  }
}

// A draw takes tokens of the nucleus alone; of a small share it is greedy.
TEST_P(Captions, SamplingFollowsItsSeedAndTheImage) {
  CaptionOptions options{.search = {.top_p = 0.95, .seed = 5}, .eos = 1};
  const auto ids = [](const Written& all) {
    std::vector<std::vector<int32_t>> out;
    for (const auto& one : all) out.push_back(one[0].ids);
    return out;
  };
  const auto together = ids(write(model_, options));
  auto turned = ids(write(model_, options, 4, {5, 4, 3, 2, 1, 0}));
  std::ranges::reverse(turned);
  EXPECT_EQ(turned, together);
  options.search.seed = 6;
  EXPECT_NE(ids(write(model_, options)), together);
  options.search.top_p = 1e-6;
  EXPECT_EQ(ids(write(model_, options)), ids(write(model_, beams_of(1))));
}

TEST_P(Captions, ShorterWhenAskedFor) {
  CaptionOptions options = beams_of(1);
  options.length = 3;
  for (const auto& one : write(model_, options)) EXPECT_LE(one[0].ids.size(), 3u);
  options.length = 9;
  EXPECT_THROW(write(model_, options), Error);
}

INSTANTIATE_TEST_SUITE_P(Cases, Captions, ::testing::Values("cappa", "cap"), [](const auto& test) { return test.param; });

// The log probabilities of a model with ids 0, 1 (the end) and 2.
std::vector<float> logits_of(std::initializer_list<double> probabilities) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

TEST(CaptionSearch, TheLengthPenaltyPrefersLongerCaptions) {
  const auto best = [](double penalty) {
    CaptionSearch search({.beams = 2, .length_penalty = penalty}, 3, 1);
    while (!search.done()) search.step(logits_of({0.5, 0.4, 0.1, 0.5, 0.4, 0.1}));
    return search.captions()[0].ids;
  };
  EXPECT_THAT(best(0), ElementsAre(1));
  EXPECT_THAT(best(8), ElementsAre(0, 0, 1));
}

TEST(CaptionSearch, WhatIsCutAtTheFullLengthCountsWhereNothingEnded) {
  CaptionSearch search({.beams = 2}, 2, {});
  for (int i = 0; i < 2; ++i) search.step(logits_of({0.6, 1e-9, 0.4, 0.6, 1e-9, 0.4}));
  EXPECT_TRUE(search.done());
  ASSERT_EQ(search.captions().size(), 2u);
  EXPECT_THAT(search.captions()[0].ids, ElementsAre(0, 0));
  EXPECT_NEAR(search.captions()[0].score, 2 * std::log(0.6) / std::pow(7.0 / 6, 0.6), 1e-6);
}

// Of the probabilities that come first, as many as sum to the share; ties are all in.
TEST(CaptionSearch, Nucleus) {
  EXPECT_THAT(nucleus(logits_of({0.1, 0.5, 0.3, 0.1}), 0.7), ElementsAre(1, 2));
  EXPECT_THAT(nucleus(logits_of({0.1, 0.5, 0.3, 0.1}), 0.4), ElementsAre(1));
  EXPECT_THAT(nucleus(logits_of({0.1, 0.5, 0.3, 0.1}), 0.85), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(nucleus(logits_of({0.1, 0.5, 0.3, 0.1}), 1), ElementsAre(0, 1, 2, 3));
}

// Draws have the probabilities that are left, at the temperature.
TEST(CaptionSearch, DrawsFollowTheProbabilities) {
  std::vector<int> counts(4);
  constexpr int kDraws = 20000;
  for (uint64_t stream = 0; stream < kDraws; ++stream) {
    CaptionSearch search({.top_p = 0.75, .temperature = 0.5}, 1, {}, stream);
    search.step(logits_of({0.1, 0.5, 0.3, 0.1}));
    ++counts[static_cast<size_t>(search.tokens()[0])];
  }
  EXPECT_EQ(counts[0] + counts[3], 0);
  const double want = 0.25 / (0.25 + 0.09);
  EXPECT_NEAR(counts[1] / static_cast<double>(kDraws), want, 4 * std::sqrt(want * (1 - want) / kDraws));
}

}  // namespace
}  // namespace tessera::inference
