#pragma once
// A figure of a run over its steps, in bounded memory.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::board {

struct Point {
  int64_t step = 0;
  double value = 0;
  bool operator==(const Point&) const = default;
};

// At most about `count` of the points, in their order: the least and the greatest value of each of equal ranges of steps, so
// that spikes stay, and the last point. Points that are not finite count as greatest.
std::vector<Point> thinned(const std::vector<Point>& points, size_t count);

class Series {
 public:
  // Steps ascend.
  void add(Point point);
  // The points after step `after`, thinned.
  std::vector<Point> points(int64_t after, size_t count) const;
  const std::vector<Point>& all() const { return points_; }
  const Point& last() const { return points_.back(); }

 private:
  std::vector<Point> points_;  // never empty once added to
};

}  // namespace tessera::board
