// What a run measures: all of it, of devices that tell of their memory and whose speed is known.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "pjrt/chip.h"
#include "train/json_lines.h"
#include "train/reporting/model_flops.h"
#include "train/small_run.h"
#include "train/workdir/run_facts.h"

namespace tessera::train {
namespace {

using testing::small_run;

TEST(Accelerator, MemoryUtilisationAndCoreHoursAreInEveryLine) {
  ASSERT_EQ(::setenv("WRAPPED_PLUGIN", testing::cpu_plugin_path().c_str(), 1), 0);
  TrainOptions options = small_run().options("on_chips");
  options.device.plugin = testing::fake_plugin_path(7);
  options.device.devices = 2;
  const config::Section section =
      small_run().section({"mesh=replica=2", "log=1 step", "monitor.sinks=[]",
                           "optimizer.schedules=['head/.* = cosine(1e-2, warmup=4 steps)', '.* = 1']"});
  const recipe::Recipe recipe = recipe::read_recipe(small_run().section({"mesh=replica=2"}), 2);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(train(section, options).exit, Exit::kDone);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("mem 10.00 MiB")) << "the most, not 1 MiB";
  const auto lines = testing::json_lines(small_run().path("on_chips") + "/metrics.jsonl");
  ASSERT_EQ(lines.size(), 12u);
  const double flops_per_image = model_flops(recipe) / static_cast<double>(recipe.batch);
  int measured = 0;
  for (const auto& line : lines) {
    for (int device = 0; device < 2; ++device) {
      const std::string prefix = fmt::format("y/devmem/dev{}/", device);
      EXPECT_EQ(line.at(prefix + "bytes_in_use"), (device + 1) << 20);
      EXPECT_EQ(line.at(prefix + "peak_bytes_in_use"), 10 << 20);
      EXPECT_EQ(line.at(prefix + "bytes_limit"), int64_t{16} << 30);
    }
    EXPECT_EQ(line.at("core_hours_TPU v5 lite"), line.at("core_hours"));
    if (!line.contains("img/sec")) continue;
    ++measured;
    const double peak = 2 * pjrt::find_chip("v5e")->f32_flops;
    EXPECT_DOUBLE_EQ(line.at("mfu").get<double>(), flops_per_image * line.at("img/sec").get<double>() / peak);
    EXPECT_DOUBLE_EQ(line.at("img/sec/core").get<double>(), line.at("img/sec").get<double>() / 2);
  }
  EXPECT_GE(measured, 6);
  // Everything that docs/monitoring.md lists of a run without a mixture, and nothing that it does not.
  std::set<std::string> seen;
  for (const auto& line : lines) {
    for (const auto& [key, value] : line.items()) seen.insert(key);
  }
  for (const char* key : {"step",
                          "training_loss",
                          "l2_grads",
                          "l2_params",
                          "l2_updates",
                          "lr",
                          "lr/head/.*",
                          "img/sec",
                          "img/sec/core",
                          "input_wait",
                          "input/read",
                          "input/decode",
                          "uptime",
                          "examples_seen",
                          "epoch",
                          "progress",
                          "core_hours",
                          "core_hours_TPU v5 lite",
                          "mfu",
                          "goodput",
                          "badput/init",
                          "badput/compile",
                          "badput/restore",
                          "badput/input",
                          "badput/evaluation",
                          "badput/save",
                          "badput/wasted",
                          "badput/recovery",
                          "z/secs/input",
                          "z/secs/step",
                          "z/secs/transfer",
                          "z/secs/eval/val",
                          "z/secs/save",
                          "y/hostmem/total",
                          "y/hostmem/available",
                          "y/hostmem/used",
                          "y/hostmem/resident",
                          "y/hostcpu/used",
                          "y/hostcpu/process",
                          "y/hostio/read",
                          "y/hostio/written",
                          "val/prec@1",
                          "val/loss",
                          "val/count"}) {
    EXPECT_TRUE(seen.contains(key)) << key;
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto step = static_cast<int64_t>(i + 1);
    EXPECT_EQ(lines[i].at("examples_seen"), step * recipe.batch);
    EXPECT_DOUBLE_EQ(lines[i].at("progress").get<double>(), static_cast<double>(step) / 12);
    EXPECT_DOUBLE_EQ(lines[i].at("epoch").get<double>(), static_cast<double>(step * recipe.batch) / 60);
    const double hours = lines[i].at("core_hours"), before = i == 0 ? 0 : lines[i - 1].at("core_hours").get<double>();
    EXPECT_GE(hours, before);
    EXPECT_LE(hours, 2 * lines[i].at("uptime").get<double>() / 3600);
  }
  EXPECT_GT(lines.back().at("core_hours"), 0);
  const std::string json = testing::slurp(small_run().path("on_chips") + "/run.json");
  const RunFacts facts = parse_run_facts(json, "run.json");
  EXPECT_EQ(facts.device_kind, "TPU v5 lite");
  EXPECT_EQ(facts.device_peak, 10 << 20);
  EXPECT_EQ(facts.device_memory, int64_t{16} << 30);
}

TEST(Accelerator, MemoryIsToldOfEachOfItsDevices) {
  ASSERT_EQ(::setenv("WRAPPED_PLUGIN", testing::cpu_plugin_path().c_str(), 1), 0);
  TrainOptions options = small_run().options("four_chips");
  options.device.plugin = testing::fake_plugin_path(7);
  options.device.devices = 4;
  ASSERT_EQ(train(small_run().section({"mesh=replica=4", "eval.val.batch=12", "monitor.sinks=[]"}), options).exit, Exit::kDone);
  const auto line = testing::json_lines(small_run().path("four_chips") + "/metrics.jsonl").at(0);
  for (int device = 0; device < 4; ++device) {
    EXPECT_EQ(line.at(fmt::format("y/devmem/dev{}/bytes_in_use", device)), (device + 1) << 20);
  }
}

}  // namespace
}  // namespace tessera::train
