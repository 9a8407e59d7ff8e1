// CapPa against big_vision's own code (tools/references/cappa.py): logits and losses in both ways of predicting, as training
// drew them, the gradient of every parameter, perplexity and the scores of prompts.

#include "models/cappa.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/grad.h"
#include "ir/ops.h"
#include "models/weights.h"
#include "objectives/caption_scoring.h"
#include "objectives/captioning.h"
#include "support/formula.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::objectives {
namespace {

using nlohmann::json;
using testing::HostArray;

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

// The value of a parameter of ours, as cappa.py gives it.
std::vector<float> parameter(const std::string& name, const Dims& dims) {
  const int64_t count = element_count(dims);
  const std::string leaf = name.substr(name.rfind('/') + 1);
  if (leaf == "scale") return testing::formula_array(name, count, 0.2, 1);
  if (leaf == "embedding") return testing::formula_array(name, count, 1);
  if (leaf == "pos_embed") return testing::formula_array(name, count, 0.5);
  return testing::formula_array(name, count,
                                leaf == "kernel" ? std::sqrt(3 / static_cast<double>(dims[dims.size() - 2])) : 0.05);
}

template <class T>
std::vector<T> flat(const json& rows) {
  std::vector<T> out;
  for (const json& row : rows) {
    for (const json& value : row) out.push_back(static_cast<T>(value.get<int32_t>()));
  }
  return out;
}

// A case's graph: its inputs are arguments, the parameters by formula.
class Case {
 public:
  explicit Case(const std::string& name, const std::string& remat = "dots")
      : file_(testing::read_references(TESSERA_SOURCE_DIR "/tests/references/cappa_" + name + ".safetensors")),
        model_(make_case(config(), remat)),
        graph_scope_(graph_),
        store_(graph_),
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

  const json& config() const { return file_.config; }
  const models::CapPa& model() const { return model_; }
  nn::Scope scope() { return nn::Scope(store_, {}).shared(); }
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
  ir::Values gradient(ir::Value loss) { return ir::gradient(loss, store_.values()); }
  const std::vector<nn::ParamSpec>& specs() const { return store_.specs(); }

  std::vector<std::vector<float>> run(const ir::Values& results) {
    graph_.results = results;
    std::map<ir::Value, const HostArray*> given;
    for (const auto& [value, array] : arguments_) given[value] = &array;
    std::vector<HostArray> all;
    size_t next = 0;
    for (const ir::Value value : graph_.parameters()) {
      if (given.contains(value)) {
        all.push_back(*given.at(value));
      } else {
        const nn::ParamSpec& spec = store_.specs()[next++];
        all.push_back(testing::f32_array(spec.type.dims, parameter(spec.name, spec.type.dims)));
      }
    }
    std::vector<std::vector<float>> out;
    for (const HostArray& array : testing::run_graph(graph_, all, testing::quick_compile())) out.push_back(array.floats());
    return out;
  }

  // Relative to the reference's norm.
  void expect(const std::string& key, const std::vector<float>& got, double tolerance) const {
    ASSERT_TRUE(file_.tensors.contains(key)) << key;
    const testing::ReferenceTensor& tensor = file_.tensors.at(key);
    const std::vector<float> want = models::to_floats({{DType::kF32, tensor.shape}, std::as_bytes(std::span(tensor.bytes))});
    ASSERT_EQ(got.size(), want.size()) << key;
    double distance = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      distance += std::pow(static_cast<double>(got[i]) - want[i], 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_LT(std::sqrt(distance), tolerance * std::sqrt(size)) << key;
  }

 private:
  ir::Value add(HostArray array) {
    const ir::Value value = graph_.add_parameter(array.type);
    arguments_.emplace_back(value, std::move(array));
    return value;
  }

  testing::ReferenceFile file_;
  models::CapPa model_;
  ir::Graph graph_;
  ir::GraphScope graph_scope_;
  nn::ParamStore store_;
  int64_t batch_, length_;
  std::vector<std::pair<ir::Value, HostArray>> arguments_;
  ir::Value images_, labels_;
  Inputs inputs_;
  ir::Values tokens_;
};

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
  EXPECT_EQ(c.specs().size(), c.config()["parameters"].size());
  for (size_t i = 0; i < c.specs().size(); ++i) c.expect("grad/" + c.specs()[i].name, got[3 + i], 1e-3);
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
  for (const int64_t at_once : {1, 4, 16}) {
    Case c(GetParam());
    const auto prompts = flat<int32_t>(c.config()["prompts"]);
    const auto got = c.run({score_prompts(c.model(), c.scope(), c.encode(), prompts, 0, at_once)});
    c.expect("scores", got[0], 1e-4);
  }
}

TEST_P(CapPaReference, WhatIsRecomputedChangesNothing) {
  for (const char* remat : {"full", "none"}) {
    Case c(GetParam(), remat);
    const ir::Value logits = c.model().decode(c.scope(), c.encode(), c.captions(), c.parallel());
    const auto got = c.run(c.gradient(ir::mean(c.loss(logits, true), {0})));
    for (size_t i = 0; i < c.specs().size(); ++i) c.expect("grad/" + c.specs()[i].name, got[i], 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CapPaReference, ::testing::Values("cappa", "cap"), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera::objectives
