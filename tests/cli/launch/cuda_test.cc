// Runs of several processes on XLA's own plugin for CUDA, with a driver that is none (tests/support/fake_cuda): its clients
// exchange their devices through the run's etcd, each process compiles the step for the devices of all, and NCCL's id goes the
// same way. NCCL itself then finds no GPU.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/text/base64.h"
#include "base/text/shell.h"
#include "cli/run_program.h"
#include "cluster/group/local_etcd.h"
#include "http/client.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CudaProcesses : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!fs::exists(plugin())) return;
    fakes_ = new TempFolder;
    const std::string make = testing::source_path("tests/support/fake_cuda/make_fake_cuda.py");
    const std::string command =
        fmt::format("python3 {} {} {}", shell_quoted(make), shell_quoted(plugin()), shell_quoted(fakes_->path().string()));
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  static void TearDownTestSuite() {
    delete fakes_;
    fakes_ = nullptr;
  }
  void SetUp() override {
    if (!fakes_) GTEST_SKIP() << "./dev plan-deps fetches the CUDA plugin";
    write_images(folder_ / "train", 20);
    std::string recipe = tiny_recipe();
    recipe.erase(recipe.find("[eval.val]"));
    recipe.replace(recipe.find("depth = 2"), 9, "depth = 1");
    write_file(folder_ / "tiny.toml", recipe);
  }

  static std::string plugin() {
    return testing::source_path(".deps/plan/lib/python3.11/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  }
  // One process of two that meet at the same etcd and divide four GPUs. Kernels are not tried out: all take the same time.
  std::unique_ptr<RunningProgram> start(int process, const std::map<std::string, std::string>& more = {}) const {
    const std::string number = std::to_string(process);
    std::map<std::string, std::string> environment = more;
    environment.merge(std::map<std::string, std::string>{
        {"LD_LIBRARY_PATH", fakes_->path()},
        {"FAKE_GPUS", "4"},
        {"CUDA_VISIBLE_DEVICES", "0,1,2,3"},
        {"TESSERA_CACHE_DIR", folder_ / "cache"},
        {"XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_dump_to=" + dump(process).string()}});
    return std::make_unique<RunningProgram>(
        std::vector<std::string>{"train", "tiny.toml", "--platform", "cuda", "--plugin", plugin(), "--workdir", "run",
                                 "--num-processes", "2", "--process-id", number, "--coordinator-address", etcd_.address()},
        folder_.path(), environment);
  }
  fs::path dump(int process) const { return folder_ / ("dump-" + std::to_string(process)); }
  // The step as it was compiled by a process, or nothing.
  std::string compiled_step(int process) const {
    for (const fs::directory_entry& file : fs::directory_iterator(dump(process))) {
      const std::string name = file.path().filename();
      if (name.find(".train_step.") != std::string::npos && name.ends_with("_gpu_after_optimizations.txt"))
        return read_file(file.path());
    }
    return "";
  }
  // What a process put under a key that has these words.
  std::string put_at_etcd(const std::string& words) const {
    const Json all = {{"key", base64(std::string(1, '\0'))}, {"range_end", base64(std::string(1, '\0'))}};
    const http::Endpoint at = http::parse_endpoint(etcd_.address(), "").value();
    const http::Answer answer = http::post_json(at, "/v3/kv/range", all.dump(), std::chrono::seconds(60));
    const Json found = Json::parse(answer.body);
    for (const Json& pair : found.at("kvs")) {
      if (bytes_of_base64(pair.at("key").get<std::string>())->find(words) != std::string::npos)
        return bytes_of_base64(pair.value("value", "")).value();
    }
    return "";
  }

  static TempFolder* fakes_;
  const TempFolder folder_;
  const group::LocalEtcd etcd_;
};
TempFolder* CudaProcesses::fakes_ = nullptr;

TEST_F(CudaProcesses, CompileForTheDevicesOfAllAndExchangeNcclsId) {
  const std::map<std::string, std::string> gate = {{"FAKE_NCCL_AFTER", folder_ / "compiled"}};
  const auto first = start(0, gate), second = start(1, gate);
  const std::string compiled = "compile  train_step";
  const auto both_compiled = [&] {
    return first->err().find(compiled) != std::string::npos &&
           read_file(folder_ / "run/log-1.txt").find(compiled) != std::string::npos;
  };
  while (first->running() && second->running() && !both_compiled()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  write_file(folder_ / "compiled", "");
  const Outcome leader = first->wait(), other = second->wait();
  // "unhandled cuda error": another start would end so too. Whoever ends first may end the other.
  EXPECT_EQ(leader.exit, 4) << leader.err;
  EXPECT_EQ(other.exit, 4) << other.err;
  EXPECT_THAT(leader.err, HasSubstr("4 devices   mesh replica=4"));
  EXPECT_THAT(leader.err + other.err, HasSubstr("error: PJRT_Event_Await: INTERNAL: NCCL operation ncclCommInitRankConfig"));
  EXPECT_EQ(put_at_etcd("plugin/root_process: 0; clique: devices=[0,1,2,3]").size(), 128) << "NCCL's id";
  const std::string step = compiled_step(0);
  EXPECT_THAT(step,
              AllOf(HasSubstr("num_partitions=4"), HasSubstr("all-reduce"), HasSubstr("replica_groups=mesh['axis_0'=4]")));
  EXPECT_TRUE(compiled_step(1) == step) << "each process compiles the same program";
}

// It waits within the plugin, for the other's devices.
TEST_F(CudaProcesses, AProcessWithoutAGpuEndsTheOther) {
  const auto first = start(0), second = start(1, {{"FAKE_GPUS", "0"}});
  const Outcome leader = first->wait(), other = second->wait();
  EXPECT_EQ(other.exit, 4) << other.err;
  EXPECT_THAT(other.err, HasSubstr("is there a cuda device on this machine, with its driver?"));
  EXPECT_EQ(leader.exit, 4) << leader.err;
  EXPECT_THAT(leader.err, HasSubstr("process 1"));
}

TEST_F(CudaProcesses, AsManyGpusAreWantedOfEach) {
  const auto first = start(0), second = start(1, {{"FAKE_GPUS", "1"}, {"CUDA_VISIBLE_DEVICES", "4"}});
  const Outcome leader = first->wait(), other = second->wait();
  EXPECT_EQ(leader.exit, 2) << leader.err;
  EXPECT_EQ(other.exit, 2) << other.err;
  EXPECT_THAT(leader.err + other.err, HasSubstr("they have 4, 1 of the 5 that the plugin knows"));
}

}  // namespace
}  // namespace tessera::cli
