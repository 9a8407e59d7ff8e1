#include "data/augment/hue.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::data {
namespace {

using Hsv = std::array<uint8_t, 3>;

uint8_t clip(int v) { return static_cast<uint8_t>(std::clamp(v, 0, 255)); }

// Pillow's rgb2hsv, with float and double where it has them.
Hsv to_hsv(const uint8_t* p) {
  const uint8_t r = p[0], g = p[1], b = p[2];
  const uint8_t most = std::max({r, g, b}), least = std::min({r, g, b});
  if (least == most) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const float saturation = range / static_cast<float>(most);
  const auto distance = [&](uint8_t v) { return static_cast<float>(most - v) / range; };
  const double rc = distance(r), gc = distance(g), bc = distance(b);
  float hue;
  if (r == most) {
    hue = static_cast<float>(bc) - static_cast<float>(gc);
  } else if (g == most) {
    hue = static_cast<float>(2.0 + rc - bc);
  } else {
    hue = static_cast<float>(4.0 + gc - rc);
  }
  const double turned = static_cast<double>(hue) / 6.0 + 1.0;
  hue = static_cast<float>(turned - std::floor(turned));
  return {clip(static_cast<int>(static_cast<double>(hue) * 255.0)),
          clip(static_cast<int>(static_cast<double>(saturation) * 255.0)), most};
}

// What h alone decides: the sixth of the circle and the place in it.
struct Sector {
  int number;
  float part;
};

std::array<Sector, 256> make_sectors() {
  std::array<Sector, 256> sectors;
  for (int h = 0; h < 256; ++h) {
    const double at = static_cast<double>(static_cast<float>(h)) * 6.0 / 255.0;
    const int number = static_cast<int>(std::floor(at));
    sectors[static_cast<size_t>(h)] = {number % 6, static_cast<float>(at - static_cast<double>(number))};
  }
  return sectors;
}

void to_rgb(const Hsv& hsv, uint8_t* out) {
  static const std::array<Sector, 256> kSectors = make_sectors();
  const uint8_t v = hsv[2];
  if (hsv[1] == 0) {
    out[0] = out[1] = out[2] = v;
    return;
  }
  const Sector sector = kSectors[hsv[0]];
  const auto saturation = static_cast<float>(static_cast<double>(hsv[1]) / 255.0);
  const auto scaled = [v](double factor) { return clip(static_cast<int>(std::round(static_cast<double>(v) * factor))); };
  const uint8_t p = scaled(1.0 - static_cast<double>(saturation));
  const uint8_t q = scaled(1.0 - static_cast<double>(saturation * sector.part));
  const uint8_t t = scaled(1.0 - static_cast<double>(saturation) * (1.0 - static_cast<double>(sector.part)));
  const std::array<Hsv, 6> choices{{{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::copy_n(choices[static_cast<size_t>(sector.number)].begin(), 3, out);
}

}  // namespace

void shift_hue(Image& image, double turns) {
  const auto shift = static_cast<uint8_t>(static_cast<int>(turns * 255));
  uint8_t* at = image.row(0);
  for (const uint8_t* end = at + image.byte_count(); at < end; at += 3) {
    Hsv hsv = to_hsv(at);
    hsv[0] = static_cast<uint8_t>(hsv[0] + shift);
    to_rgb(hsv, at);
  }
}

}  // namespace tessera::data
