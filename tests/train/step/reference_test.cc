// Ten optimizer steps of a small ViT follow PyTorch's (tools/references/training/adamw.py): losses, gradient norms and what the
// parameters come to, for AdamW, AdamW with label smoothing and with adaptive clipping, Adam, and SGD. Fifty in bf16 follow its
// autocast (tools/references/models/bf16_steps.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "host/register.h"
#include "interop/timm_config.h"
#include "interop/timm_import.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/ops.h"
#include "models/timm_names.h"
#include "models/vit/vit.h"
#include "objectives/softmax.h"
#include "optim/optimizer.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::train {
namespace {

using testing::HostArray;

std::string recipe_of(const nlohmann::json& run) {
  const std::string name = run["optimizer"] == "AdamW" ? "adamw" : run["optimizer"] == "Adam" ? "adam" : "sgd";
  std::string text = fmt::format("optimizer = {{ name = \"{}\", lr = {}, weight_decay = {}", name, run["lr"].get<double>(),
                                 run["weight_decay"].get<double>());
  if (run.contains("momentum")) text += fmt::format(", momentum = {}, nesterov = true", run["momentum"].get<double>());
  if (run.contains("betas"))
    text += fmt::format(", b1 = {}, b2 = {}", run["betas"][0].get<double>(), run["betas"][1].get<double>());
  if (run.contains("clip_norm")) text += fmt::format(", clip = \"norm({})\"", run["clip_norm"].get<double>());
  if (run.contains("agc")) text += fmt::format(", clip = \"adaptive({})\"", run["agc"].get<double>());
  return text + " }";
}

struct Trace {
  std::vector<double> losses, grad_norms;
  models::Arrays parameters;  // after the last step, under timm's names
};

Trace train(const models::ViT& model, const nlohmann::json& config, const nlohmann::json& run, DType compute = DType::kF32) {
  const int64_t batch = config["batch"], steps = config["steps"];
  const models::InputShape& in = model.input();
  const std::vector<nn::ParamSpec> specs = models::parameters(model);
  const config::Section recipe = config::parse_recipe(recipe_of(run));
  optim::Optimizer optimizer(config::Section(recipe).section("optimizer"), {steps, batch, batch});
  optim::Params params;
  for (const nn::ParamSpec& spec : specs) params.push_back({spec.name, spec.type, spec.stacked, spec.trained});
  optimizer.bind(params);
  // The mask is timm's: the same parameters decay.
  std::map<std::string, bool> decays;
  for (size_t i = 0; i < params.size(); ++i) decays[params[i].name] = optimizer.rule(i).decay != 0;

  // The programs of a run on this host call them too.
  const host::Target target(host::register_kernels(*testing::cpu_client()));
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  ir::Values values, slots;
  for (const optim::Param& param : params) values.push_back(graph.add_parameter(param.type, param.name));
  for (const optim::Param& slot : optimizer.slots()) slots.push_back(graph.add_parameter(slot.type, slot.name));
  const ir::Value step = graph.add_parameter({DType::kI32, {}});
  const ir::Value images = graph.add_parameter({DType::kF32, {batch, in.height, in.width, in.channels}});
  const ir::Value labels = graph.add_parameter({DType::kI32, {batch}});
  nn::ParamStore store(graph);
  for (size_t i = 0; i < params.size(); ++i) store.provide(params[i].name, values[i]);
  const ir::Value logits = model.logits(nn::Scope(store, {.training = true, .compute = compute, .target = &target}), images);
  const auto smoothing = objectives::spread_over_all(run.value("label_smoothing", 0.0), in.classes);
  const ir::Value loss = ir::mean(objectives::softmax_cross_entropy(logits, labels, smoothing), {0});
  const optim::Optimizer::Result update = optimizer.apply(values, ir::gradient(loss, values), slots, step);
  graph.results = update.values;
  graph.results.insert(graph.results.end(), update.slots.begin(), update.slots.end());
  graph.results.insert(graph.results.end(), {loss, update.grad_norm});
  const testing::CompiledGraph program(graph, testing::quick_compile(), &target);

  models::Arrays file;
  for (const auto& entry : config["parameters"]) {
    const Dims dims = entry[1].get<Dims>();
    file[entry[0]] = models::array_f32(dims, testing::formula_parameter(entry[0], dims));
  }
  const models::TimmMap map = model.timm_map();
  for (const models::TimmEntry& entry : map.entries) {
    for (const auto& listed : config["parameters"]) {
      if (listed[0] != entry.timm_name(0)) continue;
      EXPECT_EQ(decays.at(entry.spec.name), listed[2].get<bool>()) << entry.spec.name;
    }
  }
  const interop::Imported imported = interop::import_timm(map, models::views(file));
  std::vector<HostArray> state;
  for (const optim::Param& param : params) state.push_back({param.type, imported.parameters.at(param.name).data});
  for (const optim::Param& slot : optimizer.slots()) {
    state.push_back({slot.type, std::vector<std::byte>(static_cast<size_t>(byte_count(slot.type)))});
  }
  Trace trace;
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t given = s % config.value("batches", steps);
    std::vector<HostArray> arguments = state;
    arguments.push_back(testing::i32_array({}, {static_cast<int32_t>(s)}));
    arguments.push_back(
        testing::f32_array(images.dims(), testing::formula_images("adamw", given, batch, in.channels, in.height, in.width)));
    arguments.push_back(testing::i32_array({batch}, testing::formula_labels(given, batch, in.classes)));
    std::vector<HostArray> results = program.run(arguments);
    trace.grad_norms.push_back(static_cast<double>(results.back().floats()[0]));
    results.pop_back();
    trace.losses.push_back(static_cast<double>(results.back().floats()[0]));
    results.pop_back();
    state = std::move(results);
  }
  models::Arrays ours;
  for (size_t i = 0; i < params.size(); ++i) ours[params[i].name] = {state[i].type, state[i].data};
  trace.parameters = interop::export_timm(map, models::views(ours));
  return trace;
}

models::ViT model_of(const nlohmann::json& config) {
  models::InputShape input;
  input.height = input.width = config["args"]["img_size"];
  input.classes = config["args"]["num_classes"];
  return models::ViT(models::resolve(models::vit_options_of_timm(config["args"].dump(), "reference"), input));
}

std::vector<float> numbers_of(const testing::ReferenceFile& file, const std::string& key) {
  const testing::ReferenceTensor& tensor = file.tensors.at(key);
  return models::to_floats({{DType::kF32, tensor.shape}, std::as_bytes(std::span(tensor.bytes))});
}

class Reference : public ::testing::TestWithParam<std::string> {};

TEST_P(Reference, TenStepsFollowTorch) {
  const testing::ReferenceFile file = testing::read_references(testing::source_path("tests/references/adamw.safetensors"));
  const nlohmann::json& config = file.config;
  const Trace trace = train(model_of(config), config, config["runs"][GetParam()]);

  const auto reference = [&](const std::string& key) { return numbers_of(file, key + GetParam()); };
  const std::vector<float> losses = reference("losses"), norms = reference("grad_norms"), ends = reference("param_norms");
  ASSERT_EQ(trace.losses.size(), losses.size());
  for (size_t s = 0; s < losses.size(); ++s) {
    EXPECT_NEAR(trace.losses[s], static_cast<double>(losses[s]), 1e-5) << "step " << s;
    EXPECT_NEAR(trace.grad_norms[s] / static_cast<double>(norms[s]), 1, 1e-4) << "step " << s;
  }
  // Parameters whose gradient is rounding noise move by Adam's steps all the same: torch's own f32 run differs by 2e-4.
  size_t i = 0;
  for (const auto& entry : config["parameters"]) {
    double squares = 0;
    for (const float v : models::to_floats({trace.parameters.at(entry[0]).type, trace.parameters.at(entry[0]).data})) {
      squares += static_cast<double>(v) * static_cast<double>(v);
    }
    EXPECT_NEAR(std::sqrt(squares) / static_cast<double>(ends[i++]), 1, 1e-3) << entry[0];
  }
}

// bf16 rounds in other places than torch's autocast, so that the two lie as far apart as two roundings of the same run: twice what
// autocast changes of torch's own losses, at the most.
TEST(Bf16Reference, FiftyStepsFollowTorchsAutocast) {
  const testing::ReferenceFile file = testing::read_references(testing::source_path("tests/references/bf16_steps.safetensors"));
  const std::vector<float> losses = numbers_of(file, "losses_bf16"), in_f32 = numbers_of(file, "losses_f32");
  double band = 0;
  for (size_t s = 0; s < losses.size(); ++s) band = std::max(band, 2 * std::abs(static_cast<double>(losses[s]) - in_f32[s]));
  const Trace trace = train(model_of(file.config), file.config, file.config["runs"][""], DType::kBF16);
  ASSERT_EQ(trace.losses.size(), losses.size());
  EXPECT_LT(band, 0.01);
  double changed = 0;
  for (size_t s = 0; s < losses.size(); ++s) {
    EXPECT_NEAR(trace.losses[s], static_cast<double>(losses[s]), band) << "step " << s;
    changed = std::max(changed, std::abs(trace.losses[s] - static_cast<double>(in_f32[s])));
  }
  EXPECT_GT(changed, 1e-5) << "products of bf16 change something";
}

INSTANTIATE_TEST_SUITE_P(Runs, Reference, ::testing::Values("", "_smooth", "_agc", "_adam", "_sgd"),
                         [](const auto& test) { return test.param.empty() ? std::string("adamw") : test.param.substr(1); });

}  // namespace
}  // namespace tessera::train
