#pragma once
// A case of tools/references/{cappa,two_tower}.py: its file, a graph whose inputs are arguments, and the model's parameters
// with the values that the script gives them.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/ops.h"
#include "models/weights.h"
#include "optim/optimizer.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::objectives {

using nlohmann::json;
using testing::HostArray;

template <class T>
std::vector<T> flat(const json& rows) {
  std::vector<T> out;
  for (const json& row : rows) {
    for (const json& value : row) out.push_back(static_cast<T>(value.get<int32_t>()));
  }
  return out;
}

// The value of a parameter of ours: `embeddings` is the scale of embeddings.
inline std::vector<float> formula_value(const std::string& name, const Dims& dims, double embeddings) {
  const int64_t count = element_count(dims);
  const std::string leaf = name.substr(name.rfind('/') + 1);
  if (leaf == "scale") return testing::formula_array(name, count, 0.2, 1);
  if (leaf == "embedding") return testing::formula_array(name, count, embeddings);
  if (leaf == "pos_embed" || leaf == "cls_token" || leaf == "latent") return testing::formula_array(name, count, 0.5);
  return testing::formula_array(name, count,
                                leaf == "kernel" ? std::sqrt(3 / static_cast<double>(dims[dims.size() - 2])) : 0.05);
}

class ReferenceCase {
 public:
  explicit ReferenceCase(const std::string& file)
      : file_(testing::read_references(testing::source_path("tests/references/") + file)),
        graph_scope_(graph_),
        store_(graph_) {}
  virtual ~ReferenceCase() = default;

  const json& config() const { return file_.config; }
  nn::Scope scope() { return nn::Scope(store_, {}).shared(); }
  ir::Values gradient(ir::Value loss) { return ir::gradient(loss, store_.values()); }
  const std::vector<nn::ParamSpec>& specs() const { return store_.specs(); }
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

  // The gradient of every parameter of the file to 1e-3, which are all of the model.
  void expect_gradients(const std::vector<std::vector<float>>& got, size_t first) const {
    EXPECT_EQ(specs().size(), config()["parameters"].size());
    for (size_t i = 0; i < specs().size(); ++i) expect("grad/" + specs()[i].name, got[first + i], 1e-3);
  }

  // Updates by big_vision's Adafactor: losses and norms to 1e-4. Of the cases' sizes no second moment is factored, so that it
  // does not matter that big_vision keeps queries, keys and values apart.
  void expect_updates(ir::Value loss, int32_t steps) {
    optim::Optimizer optimizer = make_adafactor();
    std::vector<HostArray> values = initial(), states;
    ir::Values slots;
    for (const optim::Param& slot : optimizer.slots()) {
      slots.push_back(add_state(slot.type));
      states.push_back({slot.type, std::vector<std::byte>(static_cast<size_t>(byte_count(slot.type)))});
    }
    const ir::Value step = add_state({DType::kI32, {}});
    const optim::Optimizer::Result update = optimizer.apply(store_.values(), gradient(loss), slots, step);
    ir::Values results = update.values;
    results.insert(results.end(), update.slots.begin(), update.slots.end());
    results.insert(results.end(), {loss, ir::global_norm(update.values)});
    compile(results);

    std::vector<float> losses, norms;
    for (int32_t s = 0; s < steps; ++s) {
      std::vector<HostArray> with_step = states;
      with_step.push_back(testing::i32_array({}, {s}));
      std::vector<HostArray> next = call(values, with_step);
      norms.push_back(next.back().floats()[0]);
      losses.push_back(next[next.size() - 2].floats()[0]);
      const auto split = next.begin() + static_cast<ptrdiff_t>(values.size());
      values.assign(next.begin(), split);
      states.assign(split, next.end() - 2);
    }
    expect("adafactor/losses", losses, 1e-4);
    expect("adafactor/norms", norms, 1e-4);
  }

 protected:
  virtual std::vector<float> value_of(const nn::ParamSpec& spec) const = 0;

  ir::Value add(HostArray array) {
    const ir::Value value = graph_.add_parameter(array.type);
    arguments_.emplace_back(value, std::move(array));
    return value;
  }

 private:
  optim::Optimizer make_adafactor() const {
    config::Section recipe = config::parse_recipe(
        "optimizer = { name = \"adafactor_bv\", lr = \"linear(0.01)\", weight_decay = 0.01, decay_mask = \"big_vision\", "
        "beta2_cap = 0.999, clip = \"norm(1.0)\" }");
    optim::Optimizer optimizer(recipe.section("optimizer"), {20, 4, 4});
    optim::Params params;
    for (const nn::ParamSpec& spec : specs()) params.push_back({spec.name, spec.type, spec.stacked});
    optimizer.bind(params);
    return optimizer;
  }

  // An argument that call() is given `states` for, in order.
  ir::Value add_state(const TensorType& type) { return states_.emplace_back(graph_.add_parameter(type)); }

  std::vector<HostArray> initial() const {
    std::vector<HostArray> values;
    for (const nn::ParamSpec& spec : specs()) {
      values.push_back(testing::f32_array(spec.type.dims, value_of(spec)));
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

  testing::ReferenceFile file_;
  ir::Graph graph_;
  ir::GraphScope graph_scope_;
  nn::ParamStore store_;
  std::vector<std::pair<ir::Value, HostArray>> arguments_;
  ir::Values states_;
  std::optional<testing::CompiledGraph> program_;
};

}  // namespace tessera::objectives
