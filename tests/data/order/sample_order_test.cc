#include "data/order/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "data/order/shuffle.h"

namespace tessera::data {
namespace {

TEST(Mixture, SharesAreExactWhereTheyCanBe) {
  const auto shares = [](const std::vector<double>& weights) {
    const Mixture mixture(weights, 0);
    std::vector<int64_t> found;
    for (size_t i = 0; i < weights.size(); ++i) found.push_back(mixture.share(i));
    return found;
  };
  EXPECT_EQ(shares({3, 1}), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(shares({0.7, 0.2, 0.1}), (std::vector<int64_t>{7, 2, 1}));
  EXPECT_EQ(shares({1}), (std::vector<int64_t>{1}));
  EXPECT_EQ(shares({1e9, 1}), (std::vector<int64_t>{Mixture::kMaxBlock - 1, 1}));
  const std::vector<int64_t> irrational = shares({std::sqrt(2.0), std::sqrt(3.0), 1});
  EXPECT_EQ(irrational[0] + irrational[1] + irrational[2], Mixture::kMaxBlock);
  EXPECT_NEAR(static_cast<double>(irrational[0]) / Mixture::kMaxBlock, std::sqrt(2.0) / (1 + std::sqrt(2.0) + std::sqrt(3.0)),
              1e-4);
}

TEST(Mixture, EverySetMeetsItsPositionsOnce) {
  const Mixture mixture({5, 2, 1}, 9);
  std::map<int32_t, std::map<uint64_t, int>> seen;
  std::vector<uint64_t> counts(3);
  for (uint64_t i = 0; i < 800; ++i) {
    EXPECT_EQ(mixture.counts({4, i})[0] + mixture.counts({4, i})[1] + mixture.counts({4, i})[2], i);
    EXPECT_EQ(mixture.counts({4, i}), counts);
    const Mixture::Pick pick = mixture.at({4, i});
    ++counts[static_cast<size_t>(pick.set)];
    ++seen[pick.set][pick.position];
  }
  EXPECT_EQ(counts, (std::vector<uint64_t>{500, 200, 100}));
  for (const auto& [set, positions] : seen) {
    EXPECT_EQ(positions.size(), counts[static_cast<size_t>(set)]);
    EXPECT_EQ(positions.rbegin()->first + 1, positions.size());
  }
}

// Chi-square of a million draws against the weights.
TEST(Mixture, FollowsItsWeights) {
  const std::vector<double> weights = {0.5, 0.313, 0.15, 0.03, 0.007};
  const Mixture mixture(weights, 1);
  std::vector<double> counts(weights.size());
  constexpr uint64_t kDraws = 1'000'000;
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(mixture.at({0, i}).set)];
  double chi = 0;
  for (size_t i = 0; i < weights.size(); ++i) chi += std::pow(counts[i] - weights[i] * kDraws, 2) / (weights[i] * kDraws);
  EXPECT_LT(chi, 13.3);  // p = 0.01 with 4 degrees of freedom; dealing is smoother than drawing
}

class Numbers final : public Source {
 public:
  explicit Numbers(int64_t n, std::vector<int64_t> stretches = {}) : n_(n), stretches_(std::move(stretches)) {}
  int64_t size() const override { return n_; }
  const std::vector<std::string>& class_names() const override { return none_; }
  std::string id(int64_t index) const override { return std::to_string(index); }
  std::optional<std::string> read(int64_t, Sample&) const override { return std::nullopt; }
  std::vector<int64_t> stretches() const override { return stretches_; }
  const std::string& name() const override { return name_; }

 private:
  int64_t n_;
  std::vector<int64_t> stretches_;
  std::vector<std::string> none_;
  std::string name_ = "numbers";
};

std::shared_ptr<const Source> numbers(int64_t n, std::vector<int64_t> stretches = {}) {
  return std::make_shared<Numbers>(n, std::move(stretches));
}

TEST(SampleOrder, MixturesKeepTheirSetsEpochs) {
  for (const char* shuffle : {"full", "window(60, lanes=4, stretch=5)"}) {
    const SampleOrder order = make_sample_order({{numbers(50), 3}, {numbers(20), 1}}, parse_shuffle(shuffle), 16, 2);
    std::map<std::pair<int32_t, uint64_t>, std::map<int64_t, int>> seen;
    std::vector<uint64_t> counts(2);
    for (uint64_t p = 0; p < 16 * 50; ++p) {
      EXPECT_EQ(order.seen(p), counts) << p;
      const SamplePick pick = order.at(p);
      ++seen[{pick.set, pick.epoch}][pick.sample];
      ++counts[static_cast<size_t>(pick.set)];
    }
    EXPECT_EQ(counts, (std::vector<uint64_t>{600, 200}));
    // 600 of 50 and 200 of 20 are whole epochs.
    EXPECT_EQ(seen.size(), 12u + 10u) << shuffle;
    for (const auto& [epoch, samples] : seen) {
      EXPECT_EQ(samples.size(), epoch.first == 0 ? 50u : 20u);
      for (const auto& [sample, times] : samples) EXPECT_EQ(times, 1);
    }
  }
}

TEST(SampleOrder, OneSetInFullIsItsOwnOrder) {
  const SampleOrder order = make_sample_order({{numbers(100), 1}}, parse_shuffle("auto"), 8, 5);
  const FullShuffle plain(100, 5);
  for (uint64_t p = 0; p < 250; ++p) EXPECT_EQ(order.at(p).sample, plain.at({0, p}).sample);
}

// A set with stretches is read in windows without being asked to, unless it is asked not to.
TEST(SampleOrder, AutoFollowsTheSource) {
  const std::vector<int64_t> stretches = even_stretches(1000, 100);
  const auto in_a_row = [&](const char* shuffle) {
    const SampleOrder order = make_sample_order({{numbers(1000, stretches), 1}}, parse_shuffle(shuffle), 1, 5);
    std::map<int64_t, int> met;
    for (uint64_t p = 0; p < 100; ++p) ++met[order.at(p).sample / 100];
    return met.size();
  };
  EXPECT_EQ(in_a_row("window(samples=100)"), 1u);
  EXPECT_GT(in_a_row("full"), 8u);
}

// Hosts that take whole lanes never meet a stretch of another host, but where parts are cut.
TEST(SampleOrder, HostsReadTheirOwnStretches) {
  constexpr int64_t kSamples = 64'000, kBatch = 64, kHosts = 8;
  const SampleOrder order =
      make_sample_order({{numbers(kSamples), 1}}, parse_shuffle("window(4096, lanes=16, stretch=100)"), kBatch, 1);
  std::vector<std::map<int64_t, int>> met(kHosts);
  for (uint64_t p = 0; p < kSamples; ++p) {
    ++met[p % kBatch / (kBatch / kHosts)][order.at(p).sample / 100];
  }
  std::map<int64_t, int> hosts;
  for (const auto& stretches : met)
    for (const auto& [stretch, times] : stretches) ++hosts[stretch];
  int shared = 0;
  for (const auto& [stretch, times] : hosts) shared += times > 1;
  EXPECT_LE(shared, 15);  // of 640: at the cuts between 16 parts
}

// Ten billion samples in a million shards: stretches of 10,000, over 4,096 hosts.
TEST(SampleOrder, MeetsNoSampleTwiceInTenBillion) {
  constexpr int64_t kSamples = 10'000'000'000;
  std::vector<int64_t> shards = even_stretches(kSamples, 10'000);
  const SampleOrder order =
      make_sample_order({{numbers(kSamples, std::move(shards)), 1}}, parse_shuffle("window(1e6, lanes=4096)"), 65'536, 3);
  std::map<int64_t, int> seen;
  for (uint64_t i = 0; i < 100'000; ++i) {
    const SamplePick pick = order.at(i * 99'991);  // within the first epoch
    EXPECT_EQ(pick.epoch, 0u);
    EXPECT_LT(pick.sample, kSamples);
    EXPECT_EQ(++seen[pick.sample], 1);
  }
}

TEST(Shuffle, MistakesAreExplained) {
  EXPECT_THROW(parse_shuffle("windw"), Error);
  // A terabyte of places where stretches begin.
  const auto huge = make_source("fake(images=1e12)");
  EXPECT_THROW(make_sample_order({{huge, 1}}, parse_shuffle("window(stretch=1)"), 16, 2), Error);
  EXPECT_NO_THROW(make_sample_order({{huge, 1}}, parse_shuffle("window(stretch=1e6)"), 16, 2));
  EXPECT_THROW(parse_shuffle("window(samples=0)"), Error);
  EXPECT_THROW(parse_shuffle("full(3)"), Error);
}

}  // namespace
}  // namespace tessera::data
