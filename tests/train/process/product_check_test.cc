// In processes of their own: the plugin's products are made once in each.
#include "train/process/product_check.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>

#include "base/system/process.h"
#include "support/paths.h"
#include "train/process/device.h"

namespace tessera::train {
namespace {

constexpr int kRefused = 41, kGood = 42;

// Lets this process take `more` bytes of address space.
void limit_address_space(int64_t more) {
  constexpr int64_t kHuge = int64_t{1} << 46;
  rlimit limit{kHuge, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  const int64_t taken = kHuge - *address_space_left();
  limit.rlim_cur = static_cast<rlim_t>(taken + more);
  setrlimit(RLIMIT_AS, &limit);
}

std::shared_ptr<pjrt::Client> client() {
  DeviceOptions options;
  options.plugin = testing::cpu_plugin_path();
  return open_client(options);
}

[[noreturn]] void end_with_check(const pjrt::Client& client) {
  try {
    check_products(client);
  } catch (const std::bad_alloc&) {
    ::_exit(kRefused);
  }
  ::_exit(kGood);
}

class ProductCheck : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ProductCheck, PassesWhereMemoryIsLeft) {
  EXPECT_EXIT(
      {
        const auto cpu = client();
        limit_address_space(int64_t{1} << 30);
        end_with_check(*cpu);
      },
      ::testing::ExitedWithCode(kGood), "");
}

TEST_F(ProductCheck, RefusesWhereLittleIsLeft) {
  EXPECT_EXIT(
      {
        const auto cpu = client();
        limit_address_space(int64_t{64} << 20);
        end_with_check(*cpu);
      },
      ::testing::ExitedWithCode(kRefused), "");
}

}  // namespace
}  // namespace tessera::train
