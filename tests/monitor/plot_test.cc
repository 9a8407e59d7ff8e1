#include "monitor/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "base/rng.h"
#include "monitor/metrics.h"
#include "store/temp_dir.h"

namespace tessera::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::slurp;
using testing::TempDir;

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

std::vector<std::pair<double, double>> polyline(const std::string& svg, int index) {
  size_t at = 0;
  for (int i = 0; i <= index; ++i) at = svg.find("points=\"", at) + 8;
  std::vector<std::pair<double, double>> points;
  const std::string text = svg.substr(at, svg.find('"', at) - at);
  const std::regex pair("([-0-9.]+),([-0-9.]+)");
  for (std::sregex_iterator it(text.begin(), text.end(), pair), end; it != end; ++it) {
    points.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  }
  return points;
}

TEST(AxisTicks, RoundNumbersThatCoverTheRange) {
  EXPECT_THAT(axis_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(axis_ticks(0, 2.3, 6), ElementsAre(0, 0.5, 1, 1.5, 2, 2.5));
  EXPECT_THAT(axis_ticks(91, 99.2, 6), ElementsAre(90, 92, 94, 96, 98, 100));
  for (const auto& [low, high] : {std::pair{3.0, 3.0}, {0.0, 0.0}, {-5.0, 7.0}, {1e-9, 2e-9}, {0.0, 3e9}}) {
    const auto ticks = axis_ticks(low, high, 6);
    EXPECT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 9u);
    EXPECT_LE(ticks.front(), low);
    EXPECT_GE(ticks.back(), high * (1 - 1e-9));
  }
}

TEST(PlotSvg, PointsStandWhereTheTicksSay) {
  // x from 0 to 10, y from 0 to 4: the plot area is x 64..500, y 310..62.
  const std::string svg = plot_svg({{"Loss", {{"train", {{0, 4}, {5, 1}, {10, 0}}}}}}, "step");
  const auto points = polyline(svg, 0);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[0].first, 64, 0.06);
  EXPECT_NEAR(points[0].second, 62, 0.06);
  EXPECT_NEAR(points[1].first, 282, 0.06);
  EXPECT_NEAR(points[1].second, 248, 0.06);
  EXPECT_NEAR(points[2].first, 500, 0.06);
  EXPECT_NEAR(points[2].second, 310, 0.06);
  for (const char* text : {">Loss<", ">train<", ">step<", ">0<", ">4<", ">10<"}) EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(PlotSvg, GapsSinglePointsAndNothing) {
  const double nan = std::nan("");
  const std::string gap = plot_svg({{"Loss", {{"train", {{0, 1}, {1, 2}, {2, nan}, {3, 1}, {4, 1}}}}}}, "step");
  EXPECT_EQ(count(gap, "<polyline"), 2);
  EXPECT_THAT(gap, Not(HasSubstr("nan")));
  const std::string one = plot_svg({{"Loss", {{"train", {{7, 3}}}}}}, "step");
  EXPECT_EQ(count(one, "<circle"), 1);
  const std::string none = plot_svg({{"Loss", {{"train", {{nan, nan}}}}}}, "step");
  EXPECT_EQ(count(none, "<polyline"), 0);
  EXPECT_THAT(none, HasSubstr("</svg>"));
}

TEST(PlotSvg, ManyPointsAreThinnedButKeepTheirExtremes) {
  std::vector<PlotPoint> points;
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) points.push_back({static_cast<double>(i), rng.uniform(1, 2)});
  points[54'321].y = 10;
  points[77'777].y = 0;
  const std::string svg = plot_svg({{"Loss", {{"train", points}}}}, "step");
  EXPECT_EQ(count(svg, "<polyline"), 2) << "the points and their average";
  const auto drawn = polyline(svg, 0);
  EXPECT_LE(drawn.size(), 1000u);
  const auto [low, high] =
      std::minmax_element(drawn.begin(), drawn.end(), [](auto& a, auto& b) { return a.second < b.second; });
  EXPECT_NEAR(low->second, 62, 0.06);
  EXPECT_NEAR(high->second, 310, 0.06);
  EXPECT_LT(svg.size(), 60'000u);
}

TEST(PlotSvg, NamesAreText) {
  const std::string svg = plot_svg({{"<script>&", {{"<b>", {{0, 1}, {1, 2}}}}}}, "step");
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
}

TEST(WritePlot, DrawsLossAndAccuracyOfTheRun) {
  const TempDir directory;
  EXPECT_FALSE(write_plot(directory.path()));
  MetricWriter writer(directory.path());
  for (int64_t step = 10; step <= 200; step += 10) {
    writer.write(step, {{"training_loss", 2.0 / static_cast<double>(step)}, {"lr", 0.1}});
    if (step % 50 == 0) writer.write(step, {{"val/prec@1", 0.9 + static_cast<double>(step) / 4000}, {"val/loss", 0.5}});
  }
  EXPECT_EQ(write_plot(directory.path()), directory / "plot.svg");
  const std::string svg = slurp(directory / "plot.svg");
  EXPECT_EQ(count(svg, "<polyline"), 3);
  EXPECT_EQ(polyline(svg, 0).size(), 20u);
  EXPECT_EQ(polyline(svg, 1).size(), 4u);
  EXPECT_EQ(polyline(svg, 2).size(), 4u);
  EXPECT_EQ(count(svg, "<circle"), 8);
  EXPECT_THAT(svg, HasSubstr(">val: best 95.00 at step 200<"));
  EXPECT_THAT(svg, Not(HasSubstr("lr")));
}

MetricRow row(int64_t step, std::map<std::string, double, std::less<>> values) { return {step, std::move(values)}; }

std::vector<std::string> names(const PlotPanel& panel) {
  std::vector<std::string> out;
  for (const PlotSeries& series : panel.series) out.push_back(series.name + "|" + series.note);
  return out;
}

TEST(RunPanels, EveryEvaluatorHasItsOwnCurveAndItsOwnBest) {
  const std::vector<MetricRow> rows = {
      row(5, {{"training_loss", 2}, {"train/loss", 1}, {"train/prec@1", 0.9}, {"val/loss", 3}, {"val/prec@1", 0.5}}),
      row(10,
          {{"training_loss", 1}, {"train/loss", 0.5}, {"train/prec@1", 0.8}, {"val_ema/prec@1", 0.25}, {"caption/loss", 4}}),
      row(15, {{"caption/loss", 2.5}, {"val/loss", 4}, {"val/prec@1", 0.625}, {"caption/count", 7}}),
      row(20, {{"caption/loss", 6}})};
  const std::vector<PlotPanel> panels = run_panels(rows);
  ASSERT_EQ(panels.size(), 2u);
  // An evaluator may be named as the training is.
  EXPECT_THAT(names(panels[0]), ElementsAre("training_loss|", "train|", "val|", "caption|best 2.5 at step 15"));
  EXPECT_THAT(names(panels[1]),
              ElementsAre("train|best 90.00 at step 5", "val|best 62.50 at step 15", "val_ema|best 25.00 at step 10"));
  EXPECT_EQ(panels[0].series[0].points.size(), 2u);
  EXPECT_EQ(panels[0].series[1].points.size(), 2u);
  EXPECT_EQ(panels[0].series[1].color, panels[1].series[0].color);
  EXPECT_NE(panels[0].series[0].color, panels[0].series[1].color);
}

// Of a run of 100 steps with one evaluation at step 75: panels of 520 with plot areas 64..500.
TEST(RunPanels, AnOnlyEvaluationStandsAtItsStep) {
  const std::vector<PlotPanel> panels =
      run_panels({row(1, {{"training_loss", 2}}), row(75, {{"training_loss", 1.5}, {"val/loss", 1}, {"val/prec@1", 0.5}}),
                  row(100, {{"training_loss", 1}})});
  const std::string svg = plot_svg(panels, "step");
  EXPECT_EQ(count(svg, "<circle cx=\"391.0\""), 1) << "its loss";
  EXPECT_EQ(count(svg, "<circle cx=\"911.0\""), 1) << "its accuracy";
  std::vector<PlotPanel> empty{{"Loss", {{"train", {}}}}};
  share_x_axis(empty);
  EXPECT_FALSE(empty[0].x_range);
}

TEST(PlotSvg, ManyNamesTakeSeveralLines) {
  PlotPanel panel{"Loss", {{"a", {{0, 0}, {10, 4}}}}};
  for (const char* name : {"b", "c", "d"}) panel.series.push_back({name, {{0, 1}}, true, 1, "best 95.00 at step 200"});
  const std::string svg = plot_svg({panel}, "step");
  // Three lines of names: the curves begin 36 lower, and end 36 lower than in a plot with one line.
  EXPECT_NEAR(polyline(svg, 0)[1].second, 62 + 36, 0.06);
  EXPECT_NEAR(polyline(svg, 0)[0].second, 310 + 36, 0.06);
  EXPECT_THAT(svg, HasSubstr("height=\"396\""));
  const std::string long_name = plot_svg({{"Loss", {{std::string(100, 'x'), {{0, 1}}}}}}, "step");
  EXPECT_THAT(long_name, HasSubstr(">" + std::string(48, 'x') + "…<"));
}

}  // namespace
}  // namespace tessera::monitor
