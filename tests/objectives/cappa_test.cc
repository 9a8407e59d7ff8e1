// CapPa against big_vision's own code (tools/references/cappa.py): logits and losses in both ways of predicting, as training
// drew them, the gradient of every parameter, perplexity and the scores of prompts.

#include "models/cappa.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/ops.h"
#include "models/weights.h"
#include "objectives/caption_scoring.h"
#include "objectives/captioning.h"
#include "optim/optimizer.h"
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

  const ir::Values& parameters() const { return store_.values(); }
  // An argument that run() is given `state` for, in order.
  ir::Value add_state(const TensorType& type) { return states_.emplace_back(graph_.add_parameter(type)); }

  std::vector<HostArray> initial() const {
    std::vector<HostArray> values;
    for (const nn::ParamSpec& spec : specs()) {
      values.push_back(testing::f32_array(spec.type.dims, parameter(spec.name, spec.type.dims)));
    }
    return values;
  }
  void compile(const ir::Values& results) {
    graph_.results = results;
    program_.emplace(graph_, testing::quick_compile());
  }
  // The compiled results for these parameters and states.
  std::vector<HostArray> call(const std::vector<HostArray>& parameters, const std::vector<HostArray>& states) const {
    std::map<ir::Value, const HostArray*> given;
    for (const auto& [value, array] : arguments_) given[value] = &array;
    for (size_t i = 0; i < parameters.size(); ++i) given[store_.values()[i]] = &parameters[i];
    for (size_t i = 0; i < states.size(); ++i) given[states_[i]] = &states[i];
    std::vector<HostArray> all;
    for (const ir::Value value : graph_.parameters()) all.push_back(*given.at(value));
    return program_->run(all);
  }
  std::vector<std::vector<float>> run(const ir::Values& results) {
    compile(results);
    std::vector<std::vector<float>> out;
    for (const HostArray& array : call(initial(), {})) out.push_back(array.floats());
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
  ir::Values states_;
  std::optional<testing::CompiledGraph> program_;
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
  Case c(GetParam());
  const auto prompts = flat<int32_t>(c.config()["prompts"]);
  const int64_t length = c.model().input().tokens, count = static_cast<int64_t>(prompts.size()) / length;
  const auto bytes = std::as_bytes(std::span(prompts));
  const ir::Value captions =
      ir::broadcast_to(ir::constant_array({DType::kI32, {count, length}}, bytes), {c.captions().dim(0), count, length});
  const ir::Value encoded = c.encode();
  for (const auto& scores : c.run({score_captions(c.model(), c.scope(), encoded, captions, 0, 4),
                                   score_captions(c.model(), c.scope(), encoded, captions, 0, 16)})) {
    c.expect("scores", scores, 1e-4);
  }
}

TEST(CapPa, WhatIsRecomputedChangesNothing) {
  Case c("cappa", "full");
  const ir::Value logits = c.model().decode(c.scope(), c.encode(), c.captions(), c.parallel());
  const auto got = c.run(c.gradient(ir::mean(c.loss(logits, true), {0})));
  for (size_t i = 0; i < c.specs().size(); ++i) c.expect("grad/" + c.specs()[i].name, got[i], 1e-3);
}

// Of these sizes no second moment is factored, so that it does not matter that big_vision keeps queries, keys and values apart.
TEST_P(CapPaReference, TenUpdatesOfAdafactorAreBigVisions) {
  Case c(GetParam());
  const ir::Value logits = c.model().decode(c.scope(), c.encode(), c.captions(), c.parallel());
  const ir::Value loss = ir::mean(c.loss(logits, true), {0});
  config::Section recipe = config::parse_recipe(
      "optimizer = { name = \"adafactor_bv\", lr = \"linear(0.01)\", weight_decay = 0.01, decay_mask = \"big_vision\", "
      "beta2_cap = 0.999, clip = \"norm(1.0)\" }");
  optim::Optimizer optimizer(recipe.section("optimizer"), {20, 4, 4});
  optim::Params params;
  for (const nn::ParamSpec& spec : c.specs()) params.push_back({spec.name, spec.type, spec.stacked});
  optimizer.bind(params);
  std::vector<HostArray> values = c.initial(), states;
  ir::Values slots;
  for (const optim::Param& slot : optimizer.slots()) {
    slots.push_back(c.add_state(slot.type));
    states.push_back({slot.type, std::vector<std::byte>(static_cast<size_t>(byte_count(slot.type)))});
  }
  const ir::Value step = c.add_state({DType::kI32, {}});
  const optim::Optimizer::Result update = optimizer.apply(c.parameters(), c.gradient(loss), slots, step);
  ir::Values results = update.values;
  results.insert(results.end(), update.slots.begin(), update.slots.end());
  results.insert(results.end(), {loss, ir::global_norm(update.values)});
  c.compile(results);

  std::vector<float> losses, norms;
  for (int32_t s = 0; s < 10; ++s) {
    std::vector<HostArray> with_step = states;
    with_step.push_back(testing::i32_array({}, {s}));
    std::vector<HostArray> next = c.call(values, with_step);
    norms.push_back(next.back().floats()[0]);
    losses.push_back(next[next.size() - 2].floats()[0]);
    const auto split = next.begin() + static_cast<ptrdiff_t>(values.size());
    values.assign(next.begin(), split);
    states.assign(split, next.end() - 2);
  }
  c.expect("adafactor/losses", losses, 1e-4);
  c.expect("adafactor/norms", norms, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Cases, CapPaReference, ::testing::Values("cappa", "cap"), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera::objectives
