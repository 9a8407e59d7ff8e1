#ifdef TESSERA_HAS_BUCKETS

#include "checkpoint/remote/claim.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/servers/buckets.h"
#include "support/bucket_servers.h"

namespace tessera::remote {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr auto kWatched = milliseconds(1500);

// As `host` has it, in little time.
ClaimOptions of(const std::string& host, milliseconds settled = milliseconds(300)) {
  return {milliseconds(100), kWatched, settled, host};
}

class Claims : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { servers_ = new testing::BucketServers(std::filesystem::path(testing::source_path("docs"))); }
  static void TearDownTestSuite() { delete servers_; }
  std::string url(const std::string& name) const { return std::string(GetParam()) + "://data/" + name; }
  static std::string refusal(const std::string& address) {
    try {
      const Claim claim(address, of("second"));
      claim.expect_held();
      return "none";
    } catch (const Error& error) {
      return error.message();
    }
  }

  static inline testing::BucketServers* servers_ = nullptr;
};

TEST_P(Claims, HaveOneOwnerAtATime) {
  const std::string address = url("run/CLAIM");
  {
    const Claim claim(address, of("first"));
    claim.expect_held();
    EXPECT_THAT(refusal(address), HasSubstr(fmt::format("process {} on first", getpid())));
    claim.expect_held();
  }
  EXPECT_EQ(store::read_object(address), std::nullopt) << "given back";
  EXPECT_EQ(refusal(address), "none");
}

TEST_P(Claims, OfAProcessThatIsGoneAreTakenOver) {
  const std::string address = url("stale/CLAIM");
  store::write_object(address, "0123456789abcdef 7 1 another-host");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(refusal(address), "none");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kWatched);
  // One of this machine need not be watched.
  store::write_object(address, fmt::format("0123456789abcdef 7 {} second", getpid()));
  ClaimOptions patient = of("second");
  patient.watched = std::chrono::hours(10);
  EXPECT_NO_THROW(Claim(address, patient));
  store::write_object(address, "what somebody else left");
  EXPECT_EQ(refusal(address), "none");
}

TEST_P(Claims, ThatWereTakenAreNoticed) {
  const std::string address = url("taken/CLAIM");
  std::optional<Claim> claim(std::in_place, address, ClaimOptions{milliseconds(100'000), kWatched, milliseconds(300), "first"});
  store::write_object(address, "fedcba9876543210 1 4711 another-host");
  try {
    claim->expect_held();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("process 4711 on another-host"));
  }
  claim.reset();
  EXPECT_NE(store::read_object(address), std::nullopt) << "another one's claim is left alone";
}

TEST_P(Claims, OfThoseThatBeginTogetherOneHasIt) {
  constexpr milliseconds kSettled(1000);  // longer than a write takes on a busy machine
  for (int round = 0; round < 3; ++round) {
    const std::string address = url(fmt::format("race{}/CLAIM", round));
    std::vector<std::future<std::unique_ptr<Claim>>> tries;
    for (int i = 0; i < 4; ++i) {
      tries.push_back(std::async(std::launch::async, [&, i]() -> std::unique_ptr<Claim> {
        try {
          auto claim = std::make_unique<Claim>(address, of(fmt::format("host{}", i), kSettled));
          claim->expect_held();
          return claim;
        } catch (const Error&) {
          return nullptr;
        }
      }));
    }
    std::vector<std::unique_ptr<Claim>> claims;
    for (auto& one : tries) {
      if (auto claim = one.get()) claims.push_back(std::move(claim));
    }
    EXPECT_EQ(claims.size(), 1u) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Servers, Claims, ::testing::Values("s3", "gs"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tessera::remote

#endif
