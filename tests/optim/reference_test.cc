// Twenty updates of every optimizer follow the originals: timm's and torch's (tools/references/training/optimizers.py), optax's
// with big_vision's additions (big_vision_optimizers.py). Parameters are scalars, vectors, matrices and filters, alone and
// stacked: each block of a stack must come out as the original's array of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/ops.h"
#include "optim/optimizer.h"
#include "optim/update_rule.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::optim {
namespace {

using testing::HostArray;

const testing::ReferenceFile& references(const std::string& file) {
  static std::map<std::string, testing::ReferenceFile> files;
  const auto found = files.find(file);
  if (found != files.end()) return found->second;
  return files[file] = testing::read_references(testing::source_path("tests/references/") + file + ".safetensors");
}

struct Case {
  std::string file, run;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.file << " " << one.run; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* file : {"optimizers", "big_vision_optimizers"}) {
    for (const auto& [run, options] : references(file).config["runs"].items()) all.push_back({file, run});
  }
  return all;
}

Params parameters(const nlohmann::json& config) {
  Params params;
  for (const auto& entry : config["parameters"]) {
    Param& param = params.emplace_back();
    param.name = entry[0];
    param.type = {DType::kF32, entry[1].get<Dims>()};
    param.stacked = entry[2];
    param.layer = entry[3].get<int64_t>();
  }
  return params;
}

std::vector<float> initial(const Param& param) {
  if (param.name == "zero/kernel") return std::vector<float>(static_cast<size_t>(element_count(param.type.dims)));
  return testing::formula_array("optim/" + param.name, element_count(param.type.dims), 0.5);
}

std::vector<float> gradient(const Param& param, int64_t step) {
  std::vector<float> values =
      testing::formula_array(fmt::format("optim/{}/grad{}", param.name, step), element_count(param.type.dims), 1);
  for (float& value : values) value *= static_cast<float>(0.1 + static_cast<double>(step) / 10);
  return values;
}

class Reference : public ::testing::TestWithParam<Case> {};

TEST_P(Reference, TwentyUpdatesFollowTheOriginal) {
  const testing::ReferenceFile& file = references(GetParam().file);
  const Params params = parameters(file.config);
  const auto recipe = config::parse_recipe("optimizer = {" + file.config["runs"][GetParam().run].get<std::string>() + "}");
  Optimizer optimizer(config::Section(recipe).section("optimizer"), {file.config["total"], 1, 1});
  recipe.finish();
  optimizer.bind(params);

  ir::Graph graph;
  ir::Values values, slots, grads;
  for (const Param& param : params) values.push_back(graph.add_parameter(param.type));
  for (const Param& slot : optimizer.slots()) slots.push_back(graph.add_parameter(slot.type));
  Params trained;
  for (size_t i = 0; i < params.size(); ++i) {
    if (!optimizer.trainable(i)) continue;
    trained.push_back(params[i]);
    grads.push_back(graph.add_parameter(params[i].type));
  }
  const ir::Value step = graph.add_parameter({DType::kI32, {}});
  const ir::GraphScope scope(graph);
  const Optimizer::Result update = optimizer.apply(values, grads, slots, step);
  graph.results = update.values;
  graph.results.insert(graph.results.end(), update.slots.begin(), update.slots.end());
  const testing::CompiledGraph program(graph, testing::quick_compile());

  std::vector<HostArray> state;
  for (const Param& param : params) state.push_back(testing::f32_array(param.type.dims, initial(param)));
  for (const Param& slot : optimizer.slots()) {
    state.push_back({slot.type, std::vector<std::byte>(static_cast<size_t>(byte_count(slot.type)))});
  }
  for (int64_t k = 0; k < file.config["steps"].get<int64_t>(); ++k) {
    for (const Param& param : trained) state.push_back(testing::f32_array(param.type.dims, gradient(param, k)));
    state.push_back(testing::i32_array({}, {static_cast<int32_t>(k)}));
    state = program.run(state);
  }
  float tolerance = 1e-5f;
  if (file.config.contains("tolerance")) tolerance = file.config["tolerance"].value(GetParam().run, tolerance);
  for (size_t i = 0; i < params.size(); ++i) {
    const testing::ReferenceTensor& tensor = file.tensors.at(GetParam().run + "/" + params[i].name);
    const std::vector<float> got = state[i].floats();
    ASSERT_EQ(tensor.bytes.size(), got.size() * sizeof(float));
    std::vector<float> want(got.size());
    std::memcpy(want.data(), tensor.bytes.data(), tensor.bytes.size());
    float worst = 0;
    for (size_t j = 0; j < got.size(); ++j) worst = std::max(worst, std::abs(got[j] - want[j]));
    EXPECT_LE(worst, tolerance) << params[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Reference, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.file + "_" + one.param.run; });

// Every optimizer of the table has a case.
TEST(References, CoverEveryOptimizer) {
  std::set<std::string> covered;
  for (const Case& one : cases()) {
    const auto recipe = config::parse_recipe("o = {" + references(one.file).config["runs"][one.run].get<std::string>() + "}");
    covered.insert(config::Section(recipe).section("o").name());
  }
  for (const OptimizerKind* kind : optimizer_kinds()) EXPECT_TRUE(covered.contains(kind->name)) << kind->name;
}

}  // namespace
}  // namespace tessera::optim
