// CapPa against big_vision's own code (tools/references/models/cappa.py): logits and losses in both ways of predicting, as
// training drew them, the gradient of every parameter, perplexity and the scores of prompts.

#include "models/image_text/cappa.h"

#include <numeric>

#include "evaluators/caption_scoring.h"
#include "ir/random.h"
#include "objectives/captioning.h"
#include "objectives/reference_case.h"

namespace tessera::objectives {
namespace {

models::CapPa make_case(const json& config, const std::string& remat) {
  const json& m = config["model"];
  models::CapPaOptions o;
  o.width = m["emb_dim"], o.depth = m["num_layers"], o.heads = m["num_heads"], o.mlp_dim = m["mlp_dim"];
  o.patch = m["patches"][0];
  o.posemb = m.value("posemb_type", "learn") == "learn" ? "learned" : "sincos2d";
  o.decoder_depth = m.value("decoder_num_layers", 0);
  o.decoder_width = m.value("decoder_emb_dim", 0);
  o.decoder_heads = m.value("decoder_num_heads", 0);
  o.decoder_mlp_dim = m.value("decoder_mlp_dim", 0);
  o.decoder_bias = m["decoder_bias"];
  o.masked_pred_prob = m["masked_pred_prob"], o.masking_ratio = m.value("masking_ratio", 0.0);
  o.remat = remat;
  models::InputShape input;
  input.height = input.width = config["image"];
  input.tokens = m["seq_len"], input.vocabulary = m["vocab_size"];
  return models::CapPa(models::resolve(o, input));
}

class Case final : public ReferenceCase {
 public:
  explicit Case(const std::string& name, const std::string& remat = "dots")
      : ReferenceCase("cappa_" + name + ".safetensors"),
        model_(make_case(config(), remat)),
        batch_(static_cast<int64_t>(config()["labels"].size())),
        length_(model_.input().tokens) {
    const models::InputShape& in = model_.input();
    images_ = add(testing::f32_array({batch_, in.height, in.width, 3},
                                     testing::formula_array("cappa/input0", batch_ * in.height * in.width * 3)));
    labels_ = add(testing::i32_array({batch_, length_}, flat<int32_t>(config()["labels"])));
    inputs_.tokens = {{"text", length_, in.vocabulary, 0}};
    tokens_ = {labels_};
    if (config()["label_masks"].is_null()) return;
    inputs_.tokens.push_back({"masks", length_, 2, 0});
    tokens_.push_back(add(testing::i32_array({batch_, length_}, flat<int32_t>(config()["label_masks"]))));
  }

  const models::CapPa& model() const { return model_; }
  ir::Value encode() { return model_.encode(scope(), images_); }
  ir::Value captions() const { return labels_; }

  // What training drew.
  std::optional<models::ParallelPrediction> parallel() {
    if (config()["model"]["masked_pred_prob"] == 0) return std::nullopt;
    const std::vector<bool> rows = config()["parallel"];
    const ir::Value drawn = add(testing::i32_array({batch_}, {rows.begin(), rows.end()}));
    const ir::Value hidden = add(testing::i32_array({batch_, length_}, flat<int32_t>(config()["hidden"])));
    return models::ParallelPrediction{ir::convert(drawn, DType::kBool), ir::convert(hidden, DType::kBool)};
  }
  // Of each caption, as training measures it or as evaluation does.
  ir::Value loss(ir::Value logits, bool training) {
    const double smoothing = training ? config()["label_smoothing"].get<double>() : 0;
    return token_cross_entropy(logits, labels_, token_weights(inputs_, tokens_), smoothing, training);
  }

 private:
  std::vector<float> value_of(const nn::ParamSpec& spec) const override {
    return formula_value(spec.name, spec.type.dims, /*embeddings=*/1);
  }

  models::CapPa model_;
  int64_t batch_, length_;
  ir::Value images_, labels_;
  Inputs inputs_;
  ir::Values tokens_;
};

// Of captions that are predicted in parallel as many places are hidden as the ratio says, in each others.
TEST(CapPa, HidesTheShareOfPlaces) {
  models::CapPaOptions o;
  o.width = 8, o.depth = 1, o.heads = 1, o.patch = 4, o.decoder_depth = 1;
  o.masked_pred_prob = 0.75, o.masking_ratio = 0.25;
  models::InputShape input;
  input.height = input.width = 8, input.tokens = 8, input.vocabulary = 16;
  const models::CapPa model(models::resolve(o, input));
  constexpr int64_t kRows = 1000;
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  nn::ParamStore store(graph);
  const auto drawn = model.draw_parallel(nn::Scope(store, {.training = true, .key = ir::make_key(3)}), kRows);
  ASSERT_TRUE(drawn);
  graph.results = {ir::convert(drawn->rows, DType::kF32), ir::convert(drawn->hidden, DType::kF32)};
  const auto got = testing::run_graph(graph, {}, testing::quick_compile());
  const std::vector<float> rows = got[0].floats(), hidden = got[1].floats();
  EXPECT_NEAR(std::accumulate(rows.begin(), rows.end(), 0.0) / kRows, 0.75, 4 * std::sqrt(0.1875 / kRows));
  std::vector<double> at(8);
  for (size_t r = 0; r < kRows; ++r) {
    double count = 0;
    for (size_t t = 0; t < 8; ++t) count += hidden[r * 8 + t], at[t] += hidden[r * 8 + t];
    EXPECT_EQ(count, 2);
  }
  for (const double count : at) EXPECT_NEAR(count / kRows, 0.25, 5 * std::sqrt(0.1875 / kRows));
}

class CapPaReference : public ::testing::TestWithParam<std::string> {};

TEST_P(CapPaReference, TrainingIsBigVisions) {
  Case c(GetParam());
  const ir::Value logits = c.model().decode(c.scope(), c.encode(), c.captions(), c.parallel());
  const ir::Value rows = c.loss(logits, true), loss = ir::mean(rows, {0});
  ir::Values results = {logits, rows, loss};
  for (const ir::Value grad : c.gradient(loss)) results.push_back(grad);
  const auto got = c.run(results);
  c.expect("train_logits", got[0], 1e-4);
  c.expect("loss_rows", got[1], 1e-4);
  c.expect("loss", got[2], 1e-4);
  c.expect_gradients(got, 3);
}

TEST_P(CapPaReference, TokenAfterTokenIsBigVisions) {
  Case c(GetParam());
  const ir::Value logits = c.model().decode(c.scope(), c.encode(), c.captions());
  const ir::Value loss = ir::mean(c.loss(logits, true), {0});
  const ir::Values grads = c.gradient(loss);
  size_t embedding = 0;
  while (c.specs()[embedding].name != "decoder/embed/embedding") ++embedding;
  const auto got = c.run({logits, loss, grads[embedding], c.loss(logits, false)});
  c.expect("eval_logits", got[0], 1e-4);
  c.expect("ar_loss", got[1], 1e-4);
  c.expect("ar_grad/decoder/embed/embedding", got[2], 1e-3);
  c.expect("perplexity", got[3], 1e-4);
}

TEST_P(CapPaReference, ScoresOfPromptsAreBigVisions) {
  Case c(GetParam());
  const auto prompts = flat<int32_t>(c.config()["prompts"]);
  const int64_t length = c.model().input().tokens, count = static_cast<int64_t>(prompts.size()) / length;
  const auto bytes = std::as_bytes(std::span(prompts));
  const ir::Value captions =
      ir::broadcast_to(ir::constant_array({DType::kI32, {count, length}}, bytes), {c.captions().dim(0), count, length});
  const ir::Value encoded = c.encode();
  for (const auto& scores : c.run({evaluators::score_captions(c.model(), c.scope(), encoded, captions, 0, 4),
                                   evaluators::score_captions(c.model(), c.scope(), encoded, captions, 0, 16)})) {
    c.expect("scores", scores, 1e-4);
  }
}

TEST(CapPa, ScoresInParallelAreThoseOfLogitsWithAllHidden) {
  Case c("cappa");
  const int64_t images = c.captions().dim(0), length = c.model().input().tokens;
  const ir::Value encoded = c.encode(), own = ir::reshape(c.captions(), {images, 1, length});
  const ir::Value others = ir::broadcast_to(ir::reshape(ir::slice_axis(c.captions(), 0, 0, 1), {1, 1, length}), own.dims());
  const auto all = [](const Dims& dims) { return ir::constant(1, DType::kBool, dims); };
  const ir::Value logits =
      c.model().decode(c.scope(), encoded, c.captions(), models::ParallelPrediction{all({images}), all({images, length})});
  const Inputs inputs{false, {{"", length, 0, 0}}};
  const ir::Value nll = token_cross_entropy(logits, c.captions(), token_weights(inputs, {c.captions()}), 0, false);
  const auto got =
      c.run({evaluators::score_captions_in_parallel(c.model(), c.scope(), encoded, ir::concatenate({own, others}, 1), 0), nll});
  for (int64_t image = 0; image < images; ++image) {
    EXPECT_NEAR(got[0][2 * image], -got[1][image], 1e-4);
    if (image > 0) {
      EXPECT_NE(got[0][2 * image + 1], got[0][2 * image]);
    }
  }
}

TEST(CapPa, WhatIsRecomputedChangesNothing) {
  Case c("cappa", "full");
  const ir::Value logits = c.model().decode(c.scope(), c.encode(), c.captions(), c.parallel());
  c.expect_gradients(c.run(c.gradient(ir::mean(c.loss(logits, true), {0}))), 0);
}

TEST_P(CapPaReference, TenUpdatesOfAdafactorAreBigVisions) {
  Case c(GetParam());
  const ir::Value logits = c.model().decode(c.scope(), c.encode(), c.captions(), c.parallel());
  c.expect_updates(ir::mean(c.loss(logits, true), {0}), 10);
}

INSTANTIATE_TEST_SUITE_P(Cases, CapPaReference, ::testing::Values("cappa", "cap"), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera::objectives
