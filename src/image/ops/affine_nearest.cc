// Pillow's nearest-neighbour transforms, whose rounding is that of how they step, and Image.rotate.
#include "image/ops/affine_nearest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "base/text/call.h"

namespace tessera::image {
namespace {

void set_pixel(uint8_t* to, const Image& from, int x, int y, const Rgb& fill) {
  const bool inside = x >= 0 && x < from.width() && y >= 0 && y < from.height();
  std::memcpy(to, inside ? from.row(y) + x * 3 : fill.data(), 3);
}

// -1 when the coordinate is negative, and far outside when it fits no int.
int whole(double v) { return v < 0 ? -1 : static_cast<int>(std::min(v, 1e9)); }

void scale_nearest(const Image& from, const AffineMatrix& m, const Rgb& fill, Image& to) {
  double yo = m[5] + m[4] * 0.5;
  for (int y = 0; y < to.height(); ++y, yo += m[4]) {
    double xo = m[2] + m[0] * 0.5;
    for (int x = 0; x < to.width(); ++x, xo += m[0]) set_pixel(to.row(y) + x * 3, from, whole(xo), whole(yo), fill);
  }
}

int fixed(double v) { return static_cast<int>(std::floor(v * 65536 + 0.5)); }

void step_fixed(const Image& from, const AffineMatrix& m, const Rgb& fill, Image& to) {
  const int a = fixed(m[0]), b = fixed(m[1]), d = fixed(m[3]), e = fixed(m[4]);
  int x_row = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), y_row = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  for (int y = 0; y < to.height(); ++y, x_row += b, y_row += e) {
    int xx = x_row, yy = y_row;
    for (int x = 0; x < to.width(); ++x, xx += a, yy += d) set_pixel(to.row(y) + x * 3, from, xx >> 16, yy >> 16, fill);
  }
}

void step_float(const Image& from, const AffineMatrix& m, const Rgb& fill, Image& to) {
  double x_row = m[2] + m[1] * 0.5 + m[0] * 0.5, y_row = m[5] + m[4] * 0.5 + m[3] * 0.5;
  for (int y = 0; y < to.height(); ++y, x_row += m[1], y_row += m[4]) {
    double xx = x_row, yy = y_row;
    for (int x = 0; x < to.width(); ++x, xx += m[0], yy += m[3]) set_pixel(to.row(y) + x * 3, from, whole(xx), whole(yy), fill);
  }
}

bool fits_fixed(const AffineMatrix& m, int x, int y) {
  return std::abs(x * m[0] + y * m[1] + m[2]) < 32768 && std::abs(x * m[3] + y * m[4] + m[5]) < 32768;
}

// Python's round(v, 15).
double round_15(double v) { return *parse_number(fmt::format("{:.15f}", v)); }

AffineMatrix rotation(double degrees, int width, int height) {
  const double angle = -(degrees * (std::numbers::pi / 180));
  const double cos = round_15(std::cos(angle)), sin = round_15(std::sin(angle)), minus_sin = round_15(-std::sin(angle));
  const double cx = width / 2.0, cy = height / 2.0;
  AffineMatrix m{cos, sin, 0, minus_sin, cos, 0};
  m[2] = m[0] * -cx + m[1] * -cy + 0.0;
  m[5] = m[3] * -cx + m[4] * -cy + 0.0;
  m[2] += cx;
  m[5] += cy;
  return m;
}

// `quarters` counter-clockwise.
void turn(const Image& from, int quarters, Image& to) {
  const int w = from.width(), h = from.height();
  for (int y = 0; y < h; ++y) {
    for (int x = 0; x < w; ++x) {
      const int sx = quarters == 1 ? w - 1 - y : quarters == 2 ? w - 1 - x : y;
      const int sy = quarters == 1 ? x : quarters == 2 ? h - 1 - y : h - 1 - x;
      std::memcpy(to.row(y) + x * 3, from.row(sy) + sx * 3, 3);
    }
  }
}

}  // namespace

void transform_nearest(const Image& from, const AffineMatrix& m, const Rgb& fill, Image& to) {
  const int w = to.width(), h = to.height();
  if (m[1] == 0 && m[3] == 0) return scale_nearest(from, m, fill, to);
  const bool small = fits_fixed(m, 0, 0) && fits_fixed(m, w, h) && fits_fixed(m, 0, h) && fits_fixed(m, w, 0);
  small ? step_fixed(from, m, fill, to) : step_float(from, m, fill, to);
}

void rotate(Canvas& canvas, double degrees, Filter filter, const Rgb& fill) {
  double angle = std::fmod(degrees, 360.0);
  if (angle < 0) angle += 360;
  const Image& from = canvas.image();
  if (angle == 0) return;
  const bool square = from.width() == from.height();
  Image& to = canvas.next();
  if (angle == 180 || (square && (angle == 90 || angle == 270))) {
    turn(from, static_cast<int>(angle / 90), to);
  } else {
    transform_affine(from, rotation(angle, from.width(), from.height()), filter, fill, to);
  }
  canvas.swap();
}

}  // namespace tessera::image
