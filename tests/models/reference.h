#pragma once
// Reference files of models (tools/references/models/vit.py, image_models.py), and a model run on the same weights and images.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "interop/timm_import.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "models/model.h"
#include "models/timm_names.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::models {

// A reference file, with its arrays as floats.
struct Reference {
  nlohmann::json config;
  std::map<std::string, std::vector<float>> arrays;
  std::map<std::string, Dims> dims;
  const std::vector<float>& at(const std::string& name) const { return arrays.at(name); }
};

inline Reference load_reference(const std::string& name) {
  const testing::ReferenceFile file = testing::read_references(testing::source_path("tests/references/") + name);
  Reference reference{file.config, {}, {}};
  for (const auto& [key, tensor] : file.tensors) {
    reference.dims[key] = tensor.shape;
    reference.arrays[key] = to_floats({{DType::kF32, tensor.shape}, std::as_bytes(std::span(tensor.bytes))});
  }
  return reference;
}

inline const Family& family_of(const std::string& name) {
  for (const Family* family : families()) {
    if (family->name == name) return *family;
  }
  throw std::runtime_error(name);
}

// The model of a file of image_models.py.
inline std::unique_ptr<Classifier> reference_model(const Reference& reference) {
  const nlohmann::json& config = reference.config;
  InputShape input;
  input.height = config["input"][2], input.width = config["input"][3];
  input.classes = reference.dims.at("logits").back();
  return family_of(config["family"]).from_timm(config["args"].dump(), input, "reference");
}

inline Arrays formula_weights(const nlohmann::json& parameters) {
  Arrays file;
  for (const auto& entry : parameters) {
    const auto name = entry[0].get<std::string>();
    const Dims dims = entry[1].get<Dims>();
    file[name] = array_f32(dims, testing::formula_parameter(name, dims));
  }
  return file;
}

// The parameters and buffers of a reference file.
inline Arrays formula_file(const nlohmann::json& config) {
  Arrays file = formula_weights(config["parameters"]);
  if (!config.contains("buffers")) return file;
  file.merge(formula_weights(config["buffers"]));
  for (auto& [name, array] : file) {
    if (name.ends_with("num_batches_tracked")) array = array_i64({}, {0});
  }
  return file;
}

struct CaseRun {
  std::vector<float> logits, loss;
  std::map<std::string, std::vector<float>> grads;  // by timm's name, in its layout
};

struct Answer {
  ir::Value logits, loss;
};
// Of the graph's images.
using AnswerOf = std::function<Answer(const nn::Scope& scope, ir::Value images)>;

// Mean softmax cross-entropy; of logits of every token their sum with the array "ct".
inline Answer softmax_answer(const Classifier& model, const nlohmann::json& config, const nn::Scope& scope, ir::Value images) {
  const int64_t batch = config["batch"], classes = model.input().classes;
  const ir::Value logits = model.logits(scope, images);
  if (logits.rank() == 3) {
    const std::vector<float> weights = testing::formula_array("ct", element_count(logits.dims()));
    return {logits, ir::sum_all(logits * ir::constant_f32(logits.dims(), weights))};
  }
  std::vector<float> targets(static_cast<size_t>(batch * classes), 0);
  const auto labels = config["labels"].get<std::vector<int64_t>>();
  for (size_t i = 0; i < labels.size(); ++i) targets[i * static_cast<size_t>(classes) + static_cast<size_t>(labels[i])] = 1;
  const ir::Value target = ir::constant_f32({batch, classes}, targets);
  return {logits, -ir::sum_all(target * ir::log_softmax(logits)) / static_cast<double>(batch)};
}

inline CaseRun run_case(const Classifier& model, const Reference& reference, const ir::Target* target,
                        const AnswerOf& answer_of) {
  const nlohmann::json& config = reference.config;
  const InputShape& in = model.input();
  const int64_t batch = config["batch"];
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  const ir::Value images = graph.add_parameter({DType::kF32, {batch, in.height, in.width, in.channels}}, "images");
  nn::ParamStore store(graph);
  const auto [logits, loss] = answer_of(nn::Scope(store, {.target = target}), images);
  std::vector<size_t> trained;
  ir::Values wanted;
  for (size_t i = 0; i < store.specs().size(); ++i) {
    if (store.specs()[i].trained) trained.push_back(i), wanted.push_back(store.values()[i]);
  }
  graph.results = ir::gradient(loss, wanted);
  graph.results.insert(graph.results.begin(), {logits, loss});

  const TimmMap map = model.timm_map();
  const interop::Imported imported = interop::import_timm(map, views(formula_file(config)));
  std::vector<testing::HostArray> arguments = {
      testing::f32_array(images.dims(), testing::formula_images(config["case"], 0, batch, in.channels, in.height, in.width))};
  for (const nn::ParamSpec& spec : store.specs()) {
    const Array& array = imported.parameters.at(spec.name);
    arguments.push_back({array.type, array.data});
  }
  const bool small = in.height < 224;
  const pjrt::CompileOptions options = small ? testing::quick_compile() : pjrt::CompileOptions{};
  const std::vector<testing::HostArray> results = testing::run_graph(graph, arguments, options, target);

  Arrays grads;
  for (size_t i = 0; i < trained.size(); ++i) {
    grads[store.specs()[trained[i]].name] = {results[i + 2].type, results[i + 2].data};
  }
  TimmMap parameters_only = map;
  parameters_only.fixed_positions.clear();
  std::erase_if(parameters_only.entries, [](const TimmEntry& entry) { return !entry.spec.trained; });
  CaseRun run{results[0].as<float>(), results[1].as<float>(), {}};
  for (const auto& [name, array] : interop::export_timm(parameters_only, views(grads)))
    run.grads[name] = to_floats({array.type, array.data});
  return run;
}

inline double norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<float> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return norm(difference);
}

// Compares whole gradients by their distance. Where the file keeps a projection, compares norm, first entries and projection.
inline void expect_gradient(const Reference& reference, const std::string& name, const std::vector<float>& grad, bool is_zero) {
  if (is_zero) {
    EXPECT_LT(norm(grad), 1e-5) << name;
    return;
  }
  if (reference.arrays.contains("grad/" + name)) {
    const std::vector<float>& want = reference.at("grad/" + name);
    EXPECT_LT(distance(grad, want), 1e-3 * norm(want)) << name;
    return;
  }
  const double want_norm = reference.at("grad_norm/" + name)[0];
  EXPECT_NEAR(norm(grad), want_norm, 1e-3 * want_norm) << name;
  const std::vector<float> direction = testing::formula_array("proj/" + name, static_cast<int64_t>(grad.size()));
  double projection = 0;
  for (size_t i = 0; i < grad.size(); ++i) projection += static_cast<double>(grad[i]) * direction[i];
  EXPECT_NEAR(projection, reference.at("grad_proj/" + name)[0], 1e-3 * want_norm) << name;
  const std::vector<float>& head = reference.at("grad_head/" + name);
  EXPECT_LT(distance({grad.begin(), grad.begin() + static_cast<int64_t>(head.size())}, head), 1e-3 * want_norm) << name;
}

// Logits to 1e-4, the loss, and every parameter's gradient to 1e-3.
inline void expect_run(const Classifier& model, const Reference& reference, const ir::Target* target,
                       const AnswerOf& answer_of) {
  const CaseRun run = run_case(model, reference, target, answer_of);
  const std::vector<float>& logits = reference.at("logits");
  EXPECT_LT(distance(run.logits, logits), 1e-4 * norm(logits));
  EXPECT_NEAR(run.loss[0], reference.at("loss")[0], 1e-4 * std::abs(reference.at("loss")[0]));

  const nlohmann::json& parameters = reference.config["parameters"];
  EXPECT_EQ(run.grads.size(), parameters.size());
  const auto zeros = reference.config["zero_grads"].get<std::vector<std::string>>();
  for (const auto& entry : parameters) {
    const auto parameter = entry[0].get<std::string>();
    ASSERT_TRUE(run.grads.contains(parameter)) << parameter;
    expect_gradient(reference, parameter, run.grads.at(parameter),
                    std::find(zeros.begin(), zeros.end(), parameter) != zeros.end());
  }
}

inline void expect_run(const Classifier& model, const Reference& reference, const ir::Target* target) {
  expect_run(model, reference, target,
             [&](const nn::Scope& scope, ir::Value images) { return softmax_answer(model, reference.config, scope, images); });
}

}  // namespace tessera::models
