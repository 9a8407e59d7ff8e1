#include "train/step/compile.h"

#include <gtest/gtest.h>

#include "ir/ops.h"
#include "store/temp_dir.h"
#include "support/paths.h"
#include "support/run_graph.h"

namespace tessera::train {
namespace {

TEST(OutOfMemory, NamesTheLargestArrays) {
  const Error error = out_of_memory("running the training step", "RESOURCE_EXHAUSTED: 3 GiB",
                                    {{"params/head/bias", {DType::kF32, {10}}},
                                     {"opt/mu/blocks/kernel", {DType::kF32, {12, 1024, 1024}}},
                                     {"images", {DType::kU8, {256, 224, 224, 3}}},
                                     {"step", {DType::kI32, {}}},
                                     {"a", {DType::kF32, {2}}},
                                     {"b", {DType::kF32, {3}}},
                                     {"c", {DType::kF32, {4}}}});
  EXPECT_EQ(error.code(), Exit::kDevice);
  const std::string text = error.what();
  const size_t first = text.find("48.00 MiB  opt/mu/blocks/kernel f32[12, 1024, 1024]"),
               second = text.find("36.75 MiB  images u8[");
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_NE(second, std::string::npos) << text;
  EXPECT_LT(first, second);
  EXPECT_NE(text.find("7 arrays of the run take 84.75 MiB"), std::string::npos) << text;
  EXPECT_EQ(text.find(" step "), std::string::npos) << text;  // one of the smallest
  EXPECT_NE(text.find("RESOURCE_EXHAUSTED: 3 GiB"), std::string::npos) << text;
  EXPECT_NE(text.find("data.batch"), std::string::npos) << text;
}

TEST(Compile, SecondTimeComesFromTheCache) {
  const testing::TempDir dir;
  ir::Graph graph;
  {
    const ir::GraphScope scope(graph);
    graph.results = {graph.add_parameter({DType::kF32, {2}}) + 1.0};
  }
  const Program program{.name = "plus_one", .text = ir::program_text(graph)};
  const pjrt::ExecutableCache cache(dir / "cache");
  EXPECT_FALSE(compile(*testing::cpu_client(), program, cache, {}).report.cached);
  EXPECT_TRUE(Compiler(testing::cpu_client()).start(program, cache, {}).get().report.cached);
  EXPECT_THROW(compile(*testing::cpu_client(), {.name = "bad", .text = "module {"}, cache, {}), Error);
}

TEST(Compile, ProgramsOverSeveralDevicesAreCached) {
  const testing::TempDir dir;
  const pjrt::ExecutableCache cache(dir / "cache");
  const auto client = pjrt::Client::create(pjrt::Plugin::load(testing::cpu_plugin_path()), {.cpu_device_count = 2});
  const auto cached_again = [&](bool loop) {
    ir::Graph graph;
    {
      const ir::GraphScope scope(graph);
      const ir::Value x = graph.add_parameter({DType::kF32, {2}});
      const auto body = [](const ir::Values& c, const ir::Values&) { return ir::ScanResult{{c[0] + 1.0}, {}}; };
      graph.results = {loop ? ir::scan(3, {x}, {}, body).carry[0] : x + 1.0};
    }
    ir::EmitOptions emit{.name = "two"};
    emit.mesh = mesh::parse_mesh("replica=2", 2);
    const Program program{.name = "two", .text = ir::program_text(graph, emit), .devices = 2};
    compile(*client, program, cache, {});
    return compile(*client, program, cache, {}).report.cached;
  };
  EXPECT_TRUE(cached_again(false));
  EXPECT_TRUE(cached_again(true));
}

}  // namespace
}  // namespace tessera::train
