#include "pjrt/plugin/tpu_holders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/temporary_directory.h"

namespace tessera::pjrt {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kReason = "ABORTED: The TPU is already in use by another process probably owned by another user.";

class TpuHoldersTest : public ::testing::Test {
 protected:
  // A process as /proc has it, with these files open.
  void add(int64_t pid, std::string_view command, const std::vector<std::string>& files) const {
    const fs::path process = fs::path(proc_.path()) / std::to_string(pid);
    fs::create_directories(process / "fd");
    std::ofstream(process / "cmdline", std::ios::binary) << command;
    std::ofstream(process / "comm") << "short\n";
    for (size_t i = 0; i < files.size(); ++i) fs::create_symlink(files[i], process / "fd" / std::to_string(i));
  }
  TpuHolders found() const { return find_tpu_holders(proc_.path(), lock_file_); }

  const TemporaryDirectory proc_{"tessera-proc"};
  const std::string lock_file_ = proc_.path() + "/libtpu_lockfile";
};

TEST_F(TpuHoldersTest, AreNamedWithTheirCommands) {
  using namespace std::literals;
  EXPECT_EQ(found().text(), "");
  EXPECT_EQ(found().help(kReason), "");
  add(11, "bash\0"sv, {"/dev/null", "/dev/pts/0", "/dev/vfio/vfio", "socket:[17]"});
  add(::getpid(), "this one\0"sv, {"/dev/accel0"});
  EXPECT_EQ(found().text(), "");
  add(4711, "python3\0train.py\0"sv, {"/dev/null", "/dev/accel0", "/dev/accel1"});
  EXPECT_EQ(found().text(), "process 4711 (python3 train.py)");
  EXPECT_EQ(found().help(kReason), "process 4711 (python3 train.py) has this machine's TPU: end it first, or wait");
  add(12, "", {"/dev/vfio/3"});
  add(5000, "locks\x1b[2J\0"sv, {lock_file_});
  EXPECT_THAT(found().text(), StartsWith("process 12 (short), process 4711 (python3 train.py), process 5000 (locks\\x1b[2J"));
  EXPECT_THAT(found().help(kReason), EndsWith("have this machine's TPU: end them first, or wait"));
}

TEST_F(TpuHoldersTest, LongCommandsAreCut) {
  add(7, std::string(5000, 'x'), {"/dev/accel0"});
  EXPECT_LT(found().text().size(), 200u);
}

TEST_F(TpuHoldersTest, ALockFileThatIsLeftIsTold) {
  std::ofstream(lock_file_) << "";
  add(11, "bash", {"/dev/null"});
  EXPECT_THAT(found().help(kReason), HasSubstr("is left of one: `sudo rm /tmp/libtpu_lockfile`"));
  EXPECT_EQ(found().help("no chip"), "");
  add(4711, "train", {lock_file_});
  EXPECT_THAT(found().help(kReason), Not(HasSubstr("rm")));
  TpuHolders unseen = found();
  unseen.processes.clear();
  unseen.all_seen = false;
  EXPECT_THAT(unseen.help(kReason), HasSubstr("sudo lsof"));
}

TEST_F(TpuHoldersTest, WhatCannotBeReadIsPassedOver) {
  fs::create_directories(proc_.path() + "/13");  // ended meanwhile
  std::ofstream(proc_.path() + "/14") << "no directory";
  fs::create_directories(proc_.path() + "/15/fd");
  std::ofstream(proc_.path() + "/15/fd/0") << "no link";
  EXPECT_EQ(found().text(), "");
  // Has ended since its files were seen: reading its command line fails.
  fs::create_directories(proc_.path() + "/16/fd");
  fs::create_directories(proc_.path() + "/16/cmdline");
  fs::create_symlink("/dev/accel0", proc_.path() + "/16/fd/0");
  EXPECT_EQ(found().text(), "process 16 ()");
  EXPECT_EQ(find_tpu_holders(proc_.path() + "/absent", lock_file_).text(), "");
}

}  // namespace
}  // namespace tessera::pjrt
