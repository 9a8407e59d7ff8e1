#include "monitor/metrics_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/temp_dir.h"

namespace tessera::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TempDir;

std::vector<int64_t> steps(const MetricsTail::News& news) {
  std::vector<int64_t> out;
  for (const MetricRow& row : news.rows) out.push_back(row.step);
  return out;
}

TEST(MetricsTail, GivesEachLineOnceAsItComes) {
  TempDir dir;
  MetricsTail tail(dir / "metrics.jsonl");
  EXPECT_THAT(steps(tail.read()), IsEmpty()) << "no file";
  MetricWriter writer(dir.path());
  writer.write(1, {{"loss", 2.0}});
  writer.write(2, {{"loss", 1.0}});
  const MetricsTail::News news = tail.read();
  EXPECT_FALSE(news.from_start);
  EXPECT_THAT(steps(news), ElementsAre(1, 2));
  EXPECT_EQ(news.rows[1].values.at("loss"), 1);
  EXPECT_THAT(steps(tail.read()), IsEmpty());
  writer.write(3, {{"text", std::string(5 << 20, 'x')}, {"loss", 3.0}});
  writer.write(4, {});
  EXPECT_THAT(steps(tail.read()), ElementsAre(3, 4));
}

TEST(MetricsTail, WaitsForTheEndOfALine) {
  TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  MetricsTail tail(path);
  testing::spill(path, "{\"step\":1}\n{\"st");
  EXPECT_THAT(steps(tail.read()), ElementsAre(1));
  testing::spill(path, "{\"step\":1}\n{\"step\":2}\nno json\n{\"step\":3}\n");
  EXPECT_THAT(steps(tail.read()), ElementsAre(2, 3));
}

// A resumed run cuts its file, and may be past the old end again before somebody looks.
TEST(MetricsTail, StartsAgainWhereTheFileWasCut) {
  TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  MetricsTail tail(path);
  testing::spill(path, "{\"step\":1}\n{\"step\":2,\"a\":1}\n");
  tail.read();
  testing::spill(path, "{\"step\":1}\n{\"step\":2,\"a\":9}\n{\"step\":3}\n");
  MetricsTail::News news = tail.read();
  EXPECT_TRUE(news.from_start);
  EXPECT_THAT(steps(news), ElementsAre(1, 2, 3));
  MetricWriter(dir.path()).truncate_after(1);
  news = tail.read();
  EXPECT_TRUE(news.from_start);
  EXPECT_THAT(steps(news), ElementsAre(1));
  std::filesystem::remove(path);
  news = tail.read();
  EXPECT_TRUE(news.from_start);
  EXPECT_THAT(steps(news), IsEmpty());
  EXPECT_FALSE(tail.read().from_start);
}

}  // namespace
}  // namespace tessera::monitor
