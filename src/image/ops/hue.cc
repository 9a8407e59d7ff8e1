#include "image/ops/hue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tessera::image {
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

// Hue depends on which channel is the most and which the least, on their distance, and on the third one's distance from the
// most. Saturation depends on the distance and the most. So both are looked up.
struct HsvTables {
  static constexpr size_t kOrders = 6;
  std::vector<uint8_t> hue = std::vector<uint8_t>(kOrders * 65536);  // [order][most - least][most - third]
  std::vector<uint8_t> saturation = std::vector<uint8_t>(65536);     // [most][most - least]

  // By which is the most (red before green before blue), then whether the least is the next one round the circle.
  static constexpr std::array<std::array<size_t, 3>, kOrders> kPlaces = {  // of most, least, third
      {{0, 1, 2}, {0, 2, 1}, {1, 2, 0}, {1, 0, 2}, {2, 0, 1}, {2, 1, 0}}};

  HsvTables() {
    for (size_t range = 1; range < 256; ++range) {
      for (size_t order = 0; order < kOrders; ++order) {
        for (size_t third = 0; third <= range; ++third) {
          const auto& [most, least, other] = kPlaces[order];
          Hsv rgb;
          rgb[most] = 255;
          rgb[least] = static_cast<uint8_t>(255 - range);
          rgb[other] = static_cast<uint8_t>(255 - third);
          hue[order << 16 | range << 8 | third] = to_hsv(rgb.data())[0];
        }
      }
      for (size_t most = range; most < 256; ++most) {
        const Hsv rgb{static_cast<uint8_t>(most), static_cast<uint8_t>(most - range), static_cast<uint8_t>(most)};
        saturation[most << 8 | range] = to_hsv(rgb.data())[1];
      }
    }
  }

  Hsv look_up(const uint8_t* p) const {
    const size_t r = p[0], g = p[1], b = p[2];
    const size_t most = std::max({r, g, b}), least = std::min({r, g, b}), range = most - least;
    if (range == 0) return {0, 0, static_cast<uint8_t>(most)};
    const size_t third = 2 * most + least - (r + g + b);  // its distance: most - (r + g + b - most - least)
    const size_t order = r == most ? (g == least ? 0 : 1) : g == most ? (b == least ? 2 : 3) : (r == least ? 4 : 5);
    return {hue[order << 16 | range << 8 | third], saturation[most << 8 | range], static_cast<uint8_t>(most)};
  }
};

// What h alone decides: the sixth of the circle and the place in it.
struct Sector {
  size_t number;
  float part;
};

std::array<Sector, 256> make_sectors() {
  std::array<Sector, 256> sectors;
  for (int h = 0; h < 256; ++h) {
    const double at = static_cast<double>(static_cast<float>(h)) * 6.0 / 255.0;
    const int number = static_cast<int>(std::floor(at));
    sectors[static_cast<size_t>(h)] = {static_cast<size_t>(number % 6), static_cast<float>(at - static_cast<double>(number))};
  }
  return sectors;
}

// C's round() of what is not negative.
uint8_t rounded(double v) {
  const auto whole = static_cast<int>(v);
  return clip(whole + (v - whole >= 0.5));
}

void to_rgb(const Hsv& hsv, const std::array<Sector, 256>& sectors, uint8_t* out) {
  const uint8_t v = hsv[2];
  const Sector sector = sectors[hsv[0]];
  const auto saturation = static_cast<float>(static_cast<double>(hsv[1]) / 255.0);
  const auto scaled = [v](double factor) { return rounded(static_cast<double>(v) * factor); };
  const uint8_t p = scaled(1.0 - static_cast<double>(saturation));
  const uint8_t q = scaled(1.0 - static_cast<double>(saturation * sector.part));
  const uint8_t t = scaled(1.0 - static_cast<double>(saturation) * (1.0 - static_cast<double>(sector.part)));
  // Which of v, p, q, t each channel is, by sector.
  static constexpr std::array<Hsv, 6> kChoices = {{{0, 3, 1}, {2, 0, 1}, {1, 0, 3}, {1, 2, 0}, {3, 1, 0}, {0, 1, 2}}};
  const std::array<uint8_t, 4> values = {v, p, q, t};
  for (size_t c = 0; c < 3; ++c) out[c] = values[kChoices[sector.number][c]];
}

}  // namespace

void shift_hue(Image& image, double turns) {
  static const HsvTables kTables;
  static const std::array<Sector, 256> kSectors = make_sectors();
  const auto shift = static_cast<uint8_t>(static_cast<int>(turns * 255));
  uint8_t* at = image.row(0);
  for (const uint8_t* end = at + image.byte_count(); at < end; at += 3) {
    Hsv hsv = kTables.look_up(at);
    hsv[0] = static_cast<uint8_t>(hsv[0] + shift);
    to_rgb(hsv, kSectors, at);
  }
}

}  // namespace tessera::image
