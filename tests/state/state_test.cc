#include "state/state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "base/error.h"
#include "state/progress.h"

namespace tessera::train {
namespace {

const std::vector<nn::ParamSpec> kSpecs = {{"embed/kernel", {DType::kF32, {2, 3}}, {}, false},
                                           {"blocks/attn/kernel", {DType::kF32, {3, 2, 2}}, {}, true},
                                           {"head/bias", {DType::kF32, {4}}, {}, false}};

state::HostArrays counting(const state::StateLayout& layout) {
  state::HostArrays arrays;
  float next = 0;
  for (const state::StateEntry& entry : layout.entries) {
    std::vector<float> values(static_cast<size_t>(element_count(entry.type.dims)));
    std::iota(values.begin(), values.end(), next);
    next += static_cast<float>(values.size());
    arrays.push_back(store::copy_bytes(std::as_bytes(std::span(values))));
  }
  return arrays;
}

checkpoint::StoredArrays stored_arrays(const std::vector<checkpoint::HostTensor>& tensors) {
  checkpoint::StoredArrays stored;
  for (const checkpoint::HostTensor& t : tensors) {
    EXPECT_FALSE(checkpoint::add_piece(stored, t.name, t.type, {t.place(), t.data.data}));
  }
  return stored;
}

std::string failure(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  return "no error";
}

// A slot lies as its parameter would, but whole where it was summed over.
TEST(State, SlotsOfOtherShapesFollowTheirParameterOnAMesh) {
  const std::vector<nn::ParamSpec> specs = {{"blocks/mlp/fc1/kernel", {DType::kF32, {3, 32, 64}}, {}, true},
                                            {"blocks/mlp/fc2/kernel", {DType::kF32, {3, 64, 32}}, {}, true},
                                            {"head/bias", {DType::kF32, {512}}, {}, false}};
  const auto places = [&](const std::string& options, const std::string& preset) {
    const config::Section recipe = config::parse_recipe("optimizer = { lr = 1, " + options + " }");
    optim::Optimizer optimizer(config::Section(recipe).section("optimizer"), {10, 1, 1});
    optim::Params params;
    for (const nn::ParamSpec& spec : specs) params.push_back({spec.name, spec.type, spec.stacked, spec.trained});
    optimizer.bind(params);
    state::StateLayout layout = state::state_layout(specs, optimizer);
    mesh::ShardingOptions sharding;
    sharding.preset = preset;
    lay_out(layout, mesh::parse_mesh("fsdp=2, tensor=2", 4, "mesh"), sharding);
    std::map<std::string, std::string> texts;
    for (const state::StateEntry& entry : layout.entries) texts[entry.name] = entry.spec.text();
    return texts;
  };
  for (const char* preset : {"fully_sharded", "optimizer_only"}) {
    auto at = places("name = \"adafactor_bv\"", preset);
    EXPECT_EQ(at["opt/mu/blocks/mlp/fc1/kernel"], "spec(_, fsdp, tensor)");
    EXPECT_EQ(at["opt/nu_row/blocks/mlp/fc1/kernel"], "spec(_, fsdp, _)");  // [3, 32, 1]
    EXPECT_EQ(at["opt/nu_col/blocks/mlp/fc1/kernel"], "spec(_, _, tensor)");
    EXPECT_EQ(at["opt/nu_row/blocks/mlp/fc2/kernel"], "spec(_, _, fsdp)");  // [3, 1, 32]
    EXPECT_EQ(at["opt/nu_col/blocks/mlp/fc2/kernel"], "spec(_, tensor, _)");
    EXPECT_EQ(at["opt/nu/head/bias"], "spec(fsdp)");
    at = places("name = \"novograd\"", preset);
    EXPECT_EQ(at["opt/nu/blocks/mlp/fc1/kernel"], "replicate");
    EXPECT_EQ(at["opt/nu/head/bias"], "replicate");
  }
}

TEST(State, LayoutNamesEverything) {
  const config::Section recipe = config::parse_recipe("optimizer = { lr = 1 }");
  optim::Optimizer optimizer(config::Section(recipe).section("optimizer"), {10, 1, 1});
  optim::Params params;
  for (const nn::ParamSpec& spec : kSpecs) params.push_back({spec.name, spec.type, spec.stacked, spec.trained});
  optimizer.bind(params);
  const state::StateLayout layout = state::state_layout(kSpecs, optimizer);
  std::vector<std::string> names;
  for (const state::StateEntry& entry : layout.entries) names.push_back(entry.part_name(1));
  EXPECT_EQ(names, (std::vector<std::string>{"params/embed/kernel", "params/blocks/1/attn/kernel", "params/head/bias",
                                             "opt/mu/embed/kernel", "opt/mu/blocks/1/attn/kernel", "opt/mu/head/bias",
                                             "opt/nu/embed/kernel", "opt/nu/blocks/1/attn/kernel", "opt/nu/head/bias", "step",
                                             "rng"}));
  EXPECT_EQ(layout.entries[layout.step_index()].name, "step");
  EXPECT_EQ(layout.entries[layout.rng_index()].name, "rng");
  EXPECT_EQ(layout.param_count(), 6 + 12 + 4);
  EXPECT_EQ(layout.bytes(), 3 * 4 * 22 + 4 + 8);
}

TEST(State, BlocksSplitAndMergeBack) {
  const state::StateLayout layout = state::param_layout(kSpecs);
  const state::HostArrays arrays = counting(layout);
  const std::vector<checkpoint::HostTensor> parts = state::split_blocks(layout, arrays);
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[2].name, "params/blocks/1/attn/kernel");
  EXPECT_EQ(parts[2].type, (TensorType{DType::kF32, {2, 2}}));
  float first;
  std::memcpy(&first, parts[2].data.data.data(), sizeof first);
  EXPECT_EQ(first, 10);  // after the embedding's 6 and the first block's 4
  const checkpoint::StoredArrays stored = stored_arrays(parts);
  state::check_arrays(layout, stored, "test");
  for (size_t i = 0; i < arrays.size(); ++i) {
    const state::StateEntry& entry = layout.entries[i];
    std::vector<std::byte> merged(arrays[i].size());
    state::read_entry(entry, stored, {entry.type.dims, Dims(entry.type.dims.size(), 0)}, merged.data());
    EXPECT_TRUE(std::equal(arrays[i].data.begin(), arrays[i].data.end(), merged.begin(), merged.end()));
  }
  // The second column of blocks 1 and 2.
  std::vector<float> box(4);
  state::read_entry(layout.entries[1], stored, {{2, 2, 1}, {1, 0, 1}}, reinterpret_cast<std::byte*>(box.data()));
  EXPECT_EQ(box, (std::vector<float>{11, 13, 15, 17}));
}

TEST(State, MisfitsAreListedTogether) {
  const state::StateLayout layout = state::param_layout(kSpecs);
  const state::HostArrays arrays = counting(layout);
  std::vector<checkpoint::HostTensor> parts = state::split_blocks(layout, arrays);
  parts[0].name = "params/embd/kernel";
  parts[4].type.dims = {2, 2};
  const std::string message = failure([&] { state::check_arrays(layout, stored_arrays(parts), "step_1"); });
  EXPECT_NE(message.find("3 misfits"), std::string::npos) << message;
  // Both in the workdir and by `resume`, in whose new workdir a newer one would not help.
  EXPECT_NE(message.find("`model_init.from` begins a new run"), std::string::npos) << message;
  EXPECT_NE(message.find("missing      params/embed/kernel  (there is `params/embd/kernel`)"), std::string::npos) << message;
  EXPECT_NE(message.find("wrong shape  params/head/bias: f32[4] is needed, f32[2, 2] is there"), std::string::npos) << message;
  EXPECT_NE(message.find("unknown      params/embd/kernel"), std::string::npos) << message;
}

TEST(State, TableTellsInitialStatistics) {
  const state::StateLayout layout = state::param_layout(kSpecs);
  std::vector<state::Moments> moments;
  for (const store::Bytes& bytes : counting(layout)) moments.push_back(state::moments_of(bytes));
  const std::string table = state::parameter_table(layout, moments);
  EXPECT_NE(table.find("embed/kernel        [2, 3]"), std::string::npos) << table;
  EXPECT_NE(table.find("+2.5000  1.7078"), std::string::npos) << table;  // of 0, 1, …, 5
  EXPECT_NE(table.find("22 parameters in "), std::string::npos) << table;
  EXPECT_TRUE(table.ends_with("\n" + state::parameter_summary(layout))) << table;
}

TEST(Progress, RoundTripIsExact) {
  state::Progress progress;
  progress.step = 123;
  progress.examples_seen = 123 * 16;
  progress.owed = true;
  progress.metrics = state::StepMetrics{{"training_loss", 0.1f}, {"l2_grads", 1.0f / 3}, {"l2_params", 3e-38f}, {"lr", 1e-3f}};
  progress.seconds = 12.5;
  progress.best = {{"val", 0.3}};
  progress.best_checkpoint = state::BestCheckpoint{"val/loss", 80, 0.1};
  progress.runners_up = {{"val/loss", 100, 0.2}, {"val/loss", 40, 0.3}};
  progress.early_stop = state::EarlyStopState{"val/loss", 0.1, 80, 120, 2};
  progress.plateau = {.scale = 0.3, .best = 0.7, .bad = 2, .cooldown = 3};
  const state::RunDescription run{"seed = 0\n", {8, 8, 3, 2, 16, 100}, {"kät\xff", "dog"}, "decode | resize(8)", {60, "1f"}};
  const std::string json = state::to_json(progress, run);
  const state::Progress back = state::parse_progress(json, "test");
  EXPECT_EQ(back.step, 123);
  EXPECT_EQ(back.examples_seen, 123 * 16);
  EXPECT_TRUE(back.owed);
  EXPECT_EQ(back.metrics, progress.metrics);
  EXPECT_EQ(back.best, progress.best);
  EXPECT_EQ(back.best_checkpoint, progress.best_checkpoint);
  EXPECT_EQ(back.runners_up, progress.runners_up);
  EXPECT_EQ(back.early_stop, progress.early_stop);
  EXPECT_EQ(back.plateau, progress.plateau);
  const state::RunDescription same = state::parse_description(json, "test");
  EXPECT_EQ(same.recipe, run.recipe);
  EXPECT_EQ(same.input, run.input);
  EXPECT_EQ(same.class_names[1], "dog");
  EXPECT_EQ(same.data.samples, 60);
  EXPECT_EQ(same.data.hash, "1f");
  EXPECT_THROW(state::parse_progress("{}", "test"), Error);
  EXPECT_THROW(state::parse_progress("no json", "test"), Error);
  EXPECT_THROW(state::parse_progress("{\"step\": " + std::string(100'000, '['), "test"), Error);
}

}  // namespace
}  // namespace tessera::train
