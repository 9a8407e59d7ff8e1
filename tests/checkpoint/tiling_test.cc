#include "checkpoint/tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/snapshots.h"

namespace tessera::checkpoint {
namespace {

using testing::cut_randomly;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr int64_t kHuge = INT64_MAX;

TEST(Tiling, NamesWhatIsWrong) {
  struct Case {
    Dims whole;
    std::vector<Placed> pieces;
    const char* error;
  };
  const Case cases[] = {
      {{4, 6}, {{{4, 3}, {0, 0}}}, "its pieces hold 12 of the 24 elements"},
      {{4, 6}, {}, "its pieces hold 0 of the 24 elements"},
      {{4, 6}, {{{4, 6}, {0, 0}}, {{1, 1}, {2, 2}}}, "the pieces at [0, 0] and [2, 2] overlap"},
      {{4, 6}, {{{4, 4}, {0, 0}}, {{4, 4}, {0, 2}}}, "the pieces at [0, 0] and [0, 2] overlap"},
      {{4, 6}, {{{4, 6}, {0, 1}}}, "the piece [4, 6] at [0, 1] does not lie inside [4, 6]"},
      {{4, 6}, {{{4, 6}, {-1, 0}}}, "does not lie inside"},
      {{4, 6}, {{{-4, -6}, {0, 0}}}, "does not lie inside"},
      {{4, 6}, {{{24}, {0}}}, "does not lie inside"},
      {{4, 6}, {{{4, 6}, {0}}}, "does not lie inside"},
      {{4, 6}, {{{1, 1}, {kHuge, 0}}}, "does not lie inside"},
      {{4, 6}, {{{kHuge, 1}, {1, 0}}}, "does not lie inside"},
      {{}, {{{}, {}}, {{}, {}}}, "overlap"},
      {{}, {}, "its pieces hold 0 of the 1 elements"},
      {{4}, std::vector<Placed>(kMaxPieces + 1, {{0}, {0}}), "more than 16384"},
  };
  for (const Case& c : cases) EXPECT_THAT(tiling_error(c.whole, c.pieces), Optional(HasSubstr(c.error)));
}

TEST(Tiling, PiecesWithoutElementsAreNeverInTheWay) {
  EXPECT_EQ(tiling_error({2, 2}, std::vector<Placed>{{{2, 2}, {0, 0}}, {{0, 2}, {1, 0}}, {{0, 0}, {2, 2}}}), std::nullopt);
  EXPECT_EQ(tiling_error({0, 4}, {}), std::nullopt);
  EXPECT_EQ(tiling_error({0, 4}, std::vector<Placed>{{{0, 2}, {0, 0}}, {{0, 2}, {0, 2}}}), std::nullopt);
}

// How often each element of a small array is in a piece, counted one by one.
bool tiles_by_counting(const Dims& whole, const std::vector<Placed>& pieces) {
  std::vector<int> count(static_cast<size_t>(whole[0] * whole[1]));
  for (const Placed& p : pieces) {
    for (int64_t y = p.offset[0]; y < p.offset[0] + p.dims[0]; ++y) {
      for (int64_t x = p.offset[1]; x < p.offset[1] + p.dims[1]; ++x) {
        if (y >= whole[0] || x >= whole[1]) return false;
        ++count[static_cast<size_t>(y * whole[1] + x)];
      }
    }
  }
  return std::all_of(count.begin(), count.end(), [](int n) { return n == 1; });
}

TEST(Tiling, AgreesWithCounting) {
  int whole = 0, not_whole = 0;
  for (uint64_t round = 0; round < 3000; ++round) {
    Rng rng(3, round);
    const Dims dims{static_cast<int64_t>(1 + rng.below(6)), static_cast<int64_t>(1 + rng.below(6))};
    std::vector<Placed> pieces = cut_randomly(dims, 1 + rng.below(8), rng);
    for (uint64_t edits = rng.below(3); edits > 0; --edits) {
      Placed& piece = pieces[rng.below(pieces.size())];
      int64_t& number = (rng.below(2) ? piece.offset : piece.dims)[rng.below(2)];
      number = std::max<int64_t>(0, number + static_cast<int64_t>(rng.below(3)) - 1);
      if (piece.dims[0] * piece.dims[1] == 0) piece = {{1, 1}, {0, 0}};
    }
    const bool wanted = tiles_by_counting(dims, pieces);
    ASSERT_EQ(!tiling_error(dims, pieces), wanted) << "round " << round;
    ++(wanted ? whole : not_whole);
  }
  EXPECT_GT(std::min(whole, not_whole), 300);
}

TEST(Tiling, AsManyPiecesAsMayBeAreCheckedAtOnce) {
  std::vector<Placed> grid;
  for (int64_t y = 0; y < 128; ++y) {
    for (int64_t x = 0; x < 128; ++x) grid.push_back({{3, 5}, {y * 3, x * 5}});
  }
  EXPECT_EQ(tiling_error({384, 640}, grid), std::nullopt);
  --grid.back().offset[1];
  EXPECT_THAT(tiling_error({384, 640}, grid), Optional(HasSubstr("overlap")));
}

}  // namespace
}  // namespace tessera::checkpoint
