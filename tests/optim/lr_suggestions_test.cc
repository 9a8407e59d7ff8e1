// Suggestions of a learning-rate search against fastai's own functions.

#include "optim/schedule/lr_suggestions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "support/paths.h"

namespace tessera::optim {
namespace {

TEST(LrSuggestions, AreFastais) {
  std::ifstream file(testing::source_path("tests/references/lr_suggestions.json"));
  const auto curves = nlohmann::json::parse(file);
  ASSERT_EQ(curves.size(), 10u);
  for (const auto& curve : curves) {
    SCOPED_TRACE(curve["name"].get<std::string>());
    const auto values =
        suggest_rates(curve["lrs"].get<std::vector<double>>(), curve["losses"].get<std::vector<double>>()).values();
    for (size_t i = 0; i < values.size(); ++i) {
      SCOPED_TRACE(LrSuggestions::kNames[i]);
      const auto& wanted = curve[LrSuggestions::kNames[i]];
      ASSERT_EQ(values[i].has_value(), !wanted.is_null());
      if (values[i]) {
        EXPECT_NEAR(*values[i] / wanted.get<double>(), 1, 1e-12);
      }
    }
  }
}

TEST(LrSuggestions, ACurveOfOnePointSuggestsNothing) {
  const std::vector<double> one{1};
  for (const auto& value : suggest_rates(one, one).values()) EXPECT_FALSE(value);
}

// torch.lerp(loss, value, beta) / (1 - beta^count)
TEST(SmoothLoss, IsDebiased) {
  SmoothLoss smooth;
  EXPECT_NEAR(smooth.add(2), 2, 1e-12);
  EXPECT_NEAR(smooth.add(4), (0.98 * 0.02 * 2 + 0.02 * 4) / (1 - 0.98 * 0.98), 1e-12);
  SmoothLoss constant;
  for (int i = 0; i < 500; ++i) EXPECT_NEAR(constant.add(3), 3, 1e-9);
}

TEST(UsedRange, LeavesOutBothEndsAndWhatIsNoNumber) {
  std::vector<double> losses(100, 1.0);
  EXPECT_EQ(used_range(losses, 100), (std::pair<size_t, size_t>{10, 95}));
  losses.resize(60);
  EXPECT_EQ(used_range(losses, 100), (std::pair<size_t, size_t>{10, 55}));
  losses[30] = NAN;
  EXPECT_EQ(used_range(losses, 100), (std::pair<size_t, size_t>{10, 30}));
  losses.resize(12);
  EXPECT_EQ(used_range(losses, 100), (std::pair<size_t, size_t>{7, 7}));
}

}  // namespace
}  // namespace tessera::optim
