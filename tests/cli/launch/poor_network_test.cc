// Runs of two hosts whose packets are late, lost, or come no more while both live.

#include "cli/launch/poor_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "cli/launched_run.h"
#include "cli/run_program.h"
#include "cluster/group/local_etcd.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

class PoorNetworkRun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!network_.made()) GTEST_SKIP() << network_.problem();
    etcd_.emplace(network_.here());
    write_images(folder_ / "train", 20);
    write_images(folder_ / "val", 7);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  // One of the two processes; `start` tells the starts apart.
  std::unique_ptr<RunningProgram> process(int id, const std::string& start) const {
    std::vector<std::string> args{"train",
                                  "tiny.toml",
                                  "--num-processes",
                                  "2",
                                  "--process-id",
                                  std::to_string(id),
                                  "--coordinator-address",
                                  etcd_->address(),
                                  "--run-id",
                                  start,
                                  "--workdir",
                                  "run"};
    args.insert(args.end(), kLength.begin(), kLength.end());
    return network_.start(id, args, folder_.path());
  }
  void expect_bytes_of_one_machine() const {
    std::vector<std::string> args{"launch", "local:2", "--", "train", "tiny.toml", "--workdir", "local"};
    args.insert(args.end(), kLength.begin(), kLength.end());
    const Outcome local = run_program(args, folder_.path());
    EXPECT_EQ(local.exit, 0) << local.err;
    ASSERT_FALSE(weights_of(folder_ / "run", "40").empty());
    EXPECT_TRUE(weights_of(folder_ / "run", "40") == weights_of(folder_ / "local", "40"));
  }

  const std::vector<std::string> kLength = {"total=40 steps", "checkpoint.every=10 steps", "eval.val.every=40 steps"};
  const TempFolder folder_;
  const PoorNetwork network_{2};
  std::optional<group::LocalEtcd> etcd_;
};

TEST_F(PoorNetworkRun, PacketsThatAreLateOrLostChangeNoByte) {
  network_.delay(0.02, 0.02);
  const auto first = process(0, "poor"), second = process(1, "poor");
  for (RunningProgram* one : {first.get(), second.get()}) {
    const Outcome outcome = one->wait();
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
  }
  expect_bytes_of_one_machine();
}

TEST_F(PoorNetworkRun, BothSidesOfACutEndAndTheRunGoesOnAfterIt) {
  network_.delay(0.02, 0);  // so that it is not done before the cut
  {
    const auto first = process(0, "before"), second = process(1, "before");
    await_step(*first, folder_ / "run", 14);
    network_.cut(1);
    for (RunningProgram* one : {first.get(), second.get()}) {
      const Outcome outcome = one->wait();
      EXPECT_EQ(outcome.exit, 75) << outcome.err;
    }
  }
  // The terminal is process 0's.
  for (const char* log : {"log.txt", "log-1.txt"}) EXPECT_THAT(read_file(folder_ / "run" / log), HasSubstr("is gone")) << log;
  network_.mend();
  const auto first = process(0, "after"), second = process(1, "after");
  const Outcome outcome = first->wait();
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("continues run from step "));
  EXPECT_EQ(second->wait().exit, 0) << second->err();
  expect_bytes_of_one_machine();
}

}  // namespace
}  // namespace tessera::cli
