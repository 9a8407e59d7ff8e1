#include "pages/board/runs/series.h"

#include <algorithm>
#include <cmath>

namespace tessera::board {
namespace {

constexpr size_t kKeptPoints = 16384, kThinnedPoints = 8192;  // 256 KiB a figure

bool less(const Point& a, const Point& b) {
  if (!std::isfinite(a.value)) return false;
  return !std::isfinite(b.value) || a.value < b.value;
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points, size_t count) {
  if (points.size() <= std::max<size_t>(count, 4)) return points;
  const auto ranges = static_cast<double>(std::max<size_t>(1, (count - 1) / 2));
  const auto first = static_cast<double>(points.front().step);
  const double width = (static_cast<double>(points.back().step) - first + 1) / ranges;
  const auto range_of = [&](const Point& point) { return std::floor((static_cast<double>(point.step) - first) / width); };
  std::vector<Point> out;
  for (auto begin = points.begin(); begin != points.end();) {
    const double range = range_of(*begin);
    const auto end = std::find_if(begin, points.end(), [&](const Point& point) { return range_of(point) != range; });
    const auto [least, greatest] = std::minmax_element(begin, end, less);
    out.push_back(*std::min(least, greatest));
    if (least != greatest) out.push_back(*std::max(least, greatest));
    begin = end;
  }
  if (!(out.back().step == points.back().step)) out.push_back(points.back());
  return out;
}

void Series::add(Point point) {
  points_.push_back(point);
  if (points_.size() > kKeptPoints) points_ = thinned(points_, kThinnedPoints);
}

std::vector<Point> Series::points(int64_t after, size_t count) const {
  const auto begin = std::ranges::upper_bound(points_, after, {}, &Point::step);
  return thinned({begin, points_.end()}, count);
}

}  // namespace tessera::board
