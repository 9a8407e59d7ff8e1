// Highway compiles this file once for each instruction set and picks one when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/convolution/winograd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <vector>

#include "host/convolution/winograd.h"
#include "host/units/bf16-inl.h"
#include "host/units/floats.h"
#include "host/units/scratch.h"
#include "host/units/unit.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What is not exported is local: position-independent code does not inline functions that others could replace.
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
HWY_INLINE V load(const float* x) { return hn::LoadU(D(), x); }
HWY_INLINE V load(const uint16_t* x) { return widened(D(), hn::LoadU(Bits<D>(), x)); }
HWY_INLINE void store(V v, float* x) { hn::StoreU(v, D(), x); }

// B^T applied to four numbers, A to two, A^T to four, G to three and G^T to four.
HWY_INLINE void apply_bt(const V& a, const V& b, const V& c, const V& d, V* to, int step) {
  to[0] = hn::Sub(a, c), to[step] = hn::Add(b, c), to[2 * step] = hn::Sub(c, b), to[3 * step] = hn::Sub(b, d);
}
HWY_INLINE void apply_a(const V& a, const V& b, V* to, int step) {
  to[0] = a, to[step] = hn::Add(a, b), to[2 * step] = hn::Sub(a, b), to[3 * step] = hn::Neg(b);
}
HWY_INLINE void apply_at(const V& a, const V& b, const V& c, const V& d, V* to, int step) {
  to[0] = hn::Add(hn::Add(a, b), c), to[step] = hn::Sub(hn::Sub(b, c), d);
}
HWY_INLINE void apply_g(const V& a, const V& b, const V& c, V* to, int step) {
  const V half = hn::Set(D(), 0.5F), outer = hn::Mul(hn::Add(a, c), half), inner = hn::Mul(b, half);
  to[0] = a, to[step] = hn::Add(outer, inner), to[2 * step] = hn::Sub(outer, inner), to[3 * step] = c;
}
HWY_INLINE void apply_gt(const V& a, const V& b, const V& c, const V& d, V* to, int step) {
  const V half = hn::Set(D(), 0.5F), sum = hn::Mul(hn::Add(b, c), half), difference = hn::Mul(hn::Sub(b, c), half);
  to[0] = hn::Add(a, sum), to[step] = difference, to[2 * step] = hn::Add(sum, d);
}

// Number: float, or uint16_t for bf16.

// V = B^T d B of each channel; `pixels` are those of a tile, and number i of V goes to v + i * apart.
template <class Number>
HWY_INLINE void input_of(const Number* const* pixels, int64_t channels, float* v, int64_t apart) {
  for (int64_t c = 0; c < channels; c += lanes()) {
    V rows[16], out[16];
    for (int j = 0; j < 4; ++j) {
      apply_bt(load(pixels[j] + c), load(pixels[4 + j] + c), load(pixels[8 + j] + c), load(pixels[12 + j] + c), rows + j, 4);
    }
    for (int i = 0; i < 16; i += 4) apply_bt(rows[i], rows[i + 1], rows[i + 2], rows[i + 3], out + i, 1);
    for (int i = 0; i < 16; ++i) store(out[i], v + i * apart + c);
  }
}

// A dY A^T of each feature, dY being the cotangents of a tile's places.
template <class Number>
HWY_INLINE void cotangent_of(const Number* const* places, int64_t features, float* d, int64_t apart) {
  for (int64_t f = 0; f < features; f += lanes()) {
    V rows[8], out[16];
    for (int j = 0; j < 2; ++j) apply_a(load(places[j] + f), load(places[2 + j] + f), rows + j, 2);
    for (int i = 0; i < 4; ++i) apply_a(rows[2 * i], rows[2 * i + 1], out + 4 * i, 1);
    for (int i = 0; i < 16; ++i) store(out[i], d + i * apart + f);
  }
}

// U = G g G^T of `count` numbers, the taps of g being `tap` apart (less than 0: turned over).
template <class Number>
HWY_INLINE void kernel_of(const Number* g, int64_t tap, int64_t count, float* u, int64_t apart) {
  for (int64_t n = 0; n < count; n += lanes()) {
    V rows[12], out[16];
    for (int j = 0; j < 3; ++j) {
      const Number* at = g + j * tap + n;
      apply_g(load(at), load(at + 3 * tap), load(at + 6 * tap), rows + j, 3);
    }
    for (int i = 0; i < 4; ++i) apply_g(rows[3 * i], rows[3 * i + 1], rows[3 * i + 2], out + 4 * i, 1);
    for (int i = 0; i < 16; ++i) store(out[i], u + i * apart + n);
  }
}

}  // namespace

void transform_input(const float* const* pixels, int64_t channels, float* v, int64_t apart) {
  input_of(pixels, channels, v, apart);
}
void transform_input_bf16(const uint16_t* const* pixels, int64_t channels, float* v, int64_t apart) {
  input_of(pixels, channels, v, apart);
}
void transform_cotangent(const float* const* places, int64_t features, float* d, int64_t apart) {
  cotangent_of(places, features, d, apart);
}
void transform_cotangent_bf16(const uint16_t* const* places, int64_t features, float* d, int64_t apart) {
  cotangent_of(places, features, d, apart);
}
void transform_kernel(const float* g, int64_t tap, int64_t count, float* u, int64_t apart) {
  kernel_of(g, tap, count, u, apart);
}
void transform_kernel_bf16(const uint16_t* g, int64_t tap, int64_t count, float* u, int64_t apart) {
  kernel_of(g, tap, count, u, apart);
}

// Y = A^T M A of each feature, for the places of a tile that are not null.
void transform_output(const float* m, int64_t apart, int64_t features, float* const* places) {
  for (int64_t f = 0; f < features; f += lanes()) {
    V rows[8], out[4];
    for (int j = 0; j < 4; ++j) {
      const float* at = m + j * apart + f;
      apply_at(load(at), load(at + 4 * apart), load(at + 8 * apart), load(at + 12 * apart), rows + j, 4);
    }
    for (int i = 0; i < 2; ++i) apply_at(rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3], out + 2 * i, 1);
    for (int i = 0; i < 4; ++i) {
      if (places[i]) store(out[i], places[i] + f);
    }
  }
}

// G^T dU G of `count` numbers, dU being the sum of `parts`, which are `part` apart.
void transform_sums(const float* du, int64_t apart, int64_t parts, int64_t part, int64_t count, float* dkernel, int64_t tap) {
  for (int64_t n = 0; n < count; n += lanes()) {
    V sums[16], rows[12], out[9];
    for (int i = 0; i < 16; ++i) {
      const float* at = du + i * apart + n;
      sums[i] = load(at);
      for (int64_t p = 1; p < parts; ++p) sums[i] = hn::Add(sums[i], load(at + p * part));
    }
    for (int j = 0; j < 4; ++j) apply_gt(sums[j], sums[4 + j], sums[8 + j], sums[12 + j], rows + j, 4);
    for (int i = 0; i < 3; ++i) apply_gt(rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3], out + 3 * i, 1);
    for (int i = 0; i < 9; ++i) store(out[i], dkernel + i * tap + n);
  }
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::host {
namespace {

HWY_EXPORT(transform_input);
HWY_EXPORT(transform_input_bf16);
HWY_EXPORT(transform_cotangent);
HWY_EXPORT(transform_cotangent_bf16);
HWY_EXPORT(transform_kernel);
HWY_EXPORT(transform_kernel_bf16);
HWY_EXPORT(transform_output);
HWY_EXPORT(transform_sums);

// Those that read numbers of a dtype.
template <class Number>
struct Transforms;
template <>
struct Transforms<float> {
  static auto input() { return HWY_DYNAMIC_DISPATCH(transform_input); }
  static auto cotangent() { return HWY_DYNAMIC_DISPATCH(transform_cotangent); }
  static auto kernel() { return HWY_DYNAMIC_DISPATCH(transform_kernel); }
};
template <>
struct Transforms<uint16_t> {
  static auto input() { return HWY_DYNAMIC_DISPATCH(transform_input_bf16); }
  static auto cotangent() { return HWY_DYNAMIC_DISPATCH(transform_cotangent_bf16); }
  static auto kernel() { return HWY_DYNAMIC_DISPATCH(transform_kernel_bf16); }
};

constexpr int64_t kNumbers = 16;       // of a transformed tile
constexpr int64_t kTaps = 9;           // of the kernel
constexpr int64_t kTilesAtOnce = 84;   // transformed, so that they are read again from a core's caches
constexpr int64_t kEnoughTasks = 8;    // of a phase
constexpr int64_t kLanes = 16;         // at most, of a vector: channels and features are multiples
constexpr int64_t kLeastNumbers = 32;  // channels and features, below which transforms take longer than what they save

// Tiles of all pictures, in their order.
template <class Number>
class Tiles {
 public:
  Tiles(const Windows& w, const Number* zeros)
      : w_(w), zeros_(zeros), rows_(divided_up(w.rows(), 2)), columns_(divided_up(w.columns(), 2)) {}

  int64_t count() const { return w_.batch * rows_ * columns_; }
  const Number* zeros() const { return zeros_; }
  // As many at once as make enough tasks, in multiples of what a unit takes.
  int64_t at_once(const Unit& unit) const {
    return std::min(divided_up(kTilesAtOnce, unit.rows), divided_up(count(), kEnoughTasks * unit.rows)) * unit.rows;
  }

  // The pixels that a tile sees; zeros outside of the picture.
  std::array<const Number*, 16> pixels(const Number* x, int64_t tile) const {
    std::array<const Number*, 16> out{};
    const int64_t first_row = 2 * row(tile) - w_.padding, first_column = 2 * column(tile) - w_.padding;
    for (int64_t i = 0; i < 16; ++i) {
      const int64_t y = first_row + i / 4, at = first_column + i % 4;
      const bool inside = y >= 0 && y < w_.height && at >= 0 && at < w_.width;
      out[static_cast<size_t>(i)] = inside ? x + ((picture(tile) * w_.height + y) * w_.width + at) * w_.channels : zeros_;
    }
    return out;
  }
  // Its places in y, an array of numbers; `none` for those that the convolution does not have.
  template <class Y>
  std::array<Y*, 4> places(Y* y, int64_t features, int64_t tile, Y* none) const {
    std::array<Y*, 4> out{};
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t r = 2 * row(tile) + i / 2, c = 2 * column(tile) + i % 2;
      const bool inside = r < w_.rows() && c < w_.columns();
      out[static_cast<size_t>(i)] = inside ? y + ((picture(tile) * w_.rows() + r) * w_.columns() + c) * features : none;
    }
    return out;
  }

 private:
  int64_t picture(int64_t tile) const { return tile / columns_ / rows_; }
  int64_t row(int64_t tile) const { return tile / columns_ % rows_; }
  int64_t column(int64_t tile) const { return tile % columns_; }

  const Windows w_;
  const Number* zeros_;
  int64_t rows_, columns_;
};

// Transformed numbers are f32.
const Unit& unit() { return unit_for(DType::kF32); }

Operand matrix(const float* data, int64_t rows, int64_t k, int64_t row_stride, int64_t k_stride) {
  return {data, DType::kF32, rows, k, row_stride, k_stride};
}

// The kernel [3, 3, channels, features], or, turned over, [3, 3, features, channels], transformed: 16 right sides, packed.
template <class Number>
class TransformedKernel {
 public:
  TransformedKernel(int64_t channels, int64_t features, const Number* kernel, bool turned)
      : channels_(channels), features_(features), kernel_(kernel), turned_(turned), unit_(unit()) {}

  int64_t matrix_bytes() const { return unit_.packed_bytes(features_, channels_); }
  int64_t bytes() const { return kNumbers * matrix_bytes(); }
  Phase pack_to(uint8_t* to) const {
    return {unit_.panels(features_), [to, *this](int64_t panel) { pack(panel, to); }};
  }
  Panels matrix_of(const uint8_t* packed, int64_t i) const {
    return unit_.part(packed + i * matrix_bytes(), channels_, features_, 0, unit_.panels(features_));
  }

 private:
  // The kernels of a panel's features.
  void pack(int64_t panel, uint8_t* to) const {
    thread_local Scratch scratch;
    const int64_t first = panel * unit_.panel, count = std::min(unit_.panel, features_ - first), channels = channels_;
    const int64_t apart = count * channels, tap = features_ * channels;
    float* u = scratch.get<float>(kNumbers * apart);
    const auto transform = Transforms<Number>::kernel();
    if (turned_) {
      for (int64_t f = 0; f < count; ++f) {
        transform(kernel_ + 8 * tap + (first + f) * channels, -tap, channels, u + f * channels, apart);
      }
    } else {
      for (int64_t c = 0; c < channels; ++c) transform(kernel_ + c * features_ + first, tap, count, u + c * count, apart);
    }
    for (int64_t i = 0; i < kNumbers; ++i) {
      const Operand side =
          turned_ ? matrix(u + i * apart, count, channels, channels, 1) : matrix(u + i * apart, count, channels, 1, count);
      unit_.pack(side, 0, 1, 0, unit_.steps(channels), to + i * matrix_bytes() + panel * unit_.panel_bytes(channels));
    }
  }

  int64_t channels_, features_;
  const Number* kernel_;
  bool turned_;
  const Unit& unit_;
};

// A convolution over w by such a kernel.
template <class Number>
class Forward {
 public:
  // `packed`: the kernel, packed before, or null; `norm` may be null.
  Forward(const Windows& w, const TransformedKernel<Number>& kernel, const uint8_t* packed, int64_t features, const Number* x,
          Number* y, const NormAfter* norm)
      : w_(w), kernel_(kernel), packed_(packed), features_(features), x_(x), y_(y), norm_(norm), unit_(unit()) {}

  // `scratch` is of the calling thread and stays as it is until the phases are done.
  std::vector<Phase> list(Scratch& scratch) {
    const int64_t packs = packed_ ? 0 : kernel_.bytes();
    auto* memory = scratch.get<uint8_t>(packs + w_.channels * static_cast<int64_t>(sizeof(Number)));
    auto* zeros = reinterpret_cast<Number*>(memory + packs);
    std::fill_n(zeros, w_.channels, Number{});
    const Tiles<Number> tiles(w_, zeros);
    const int64_t at_once = tiles.at_once(unit_);
    std::vector<Phase> phases;
    if (!packed_) {
      phases.push_back(kernel_.pack_to(memory));
      packed_ = memory;
    }
    phases.push_back({divided_up(tiles.count(), at_once), [=, this](int64_t task) {
                        const int64_t first = task * at_once;
                        multiply(tiles, first, std::min(tiles.count(), first + at_once));
                      }});
    return phases;
  }

 private:
  void multiply(const Tiles<Number>& tiles, int64_t first, int64_t last) const {
    thread_local Scratch scratch;
    const int64_t count = last - first, seen = count * w_.channels, made = count * features_;
    float* v = scratch.get<float>(kNumbers * (seen + made) + 4 * features_);
    float *m = v + kNumbers * seen, *results = m + kNumbers * made;
    const auto transform = Transforms<Number>::input();
    for (int64_t t = 0; t < count; ++t) transform(tiles.pixels(x_, first + t).data(), w_.channels, v + t * w_.channels, seen);
    for (int64_t i = 0; i < kNumbers; ++i) {
      unit_.multiply(matrix(v + i * seen, count, w_.channels, w_.channels, 1), kernel_.matrix_of(packed_, i), m + i * made,
                     features_, true);
    }
    for (int64_t t = 0; t < count; ++t) {
      finish(m + t * features_, made, tiles.template places<Number>(y_, features_, first + t, nullptr), results);
    }
  }

  // What one tile's sums give. While they are in L1, its places are normalised and, where y is bf16, rounded from `results`.
  void finish(const float* m, int64_t apart, const std::array<Number*, 4>& places, float* results) const {
    std::array<float*, 4> to{};
    for (size_t i = 0; i < 4; ++i) {
      if (places[i]) to[i] = in_place(places[i], results + static_cast<int64_t>(i) * features_);
    }
    HWY_DYNAMIC_DISPATCH(transform_output)(m, apart, features_, to.data());
    for (size_t i = 0; i < 4; ++i) {
      if (places[i]) finish_place(to[i], places[i]);
    }
  }
  static float* in_place(float* y, float* /*apart*/) { return y; }
  static float* in_place(uint16_t* /*y*/, float* apart) { return apart; }

  void finish_place(const float* sums, float* y) const {
    if (norm_) normalize_columns({1, features_}, norm_->norm, sums, residual(y), y);
  }
  void finish_place(const float* sums, uint16_t* y) const {
    if (norm_) return normalize_columns({1, features_}, norm_->norm, sums, features_, residual(y), y, features_);
    narrow(sums, features_, y);
  }
  // What is added to a place of y; null where nothing is.
  const Number* residual(const Number* y) const {
    return norm_->residual ? static_cast<const Number*>(norm_->residual) + (y - y_) : nullptr;
  }

  const Windows w_;
  const TransformedKernel<Number> kernel_;
  const uint8_t* packed_;
  const int64_t features_;
  const Number* const x_;
  Number* const y_;
  const NormAfter* const norm_;
  const Unit& unit_;
};

// The gradient of U is a sum over tiles, one for each of its 16 matrices, of V times A dY A^T. Parts of the tiles have sums of
// their own, and where there are few parts, each has several tasks, for parts of the features.
template <class Number>
class KernelGradient {
 public:
  KernelGradient(const Convolution& c, const Number* x, const Number* dy, Destination dkernel)
      : w_(c.windows),
        features_(c.features),
        x_(x),
        dy_(dy),
        dkernel_(dkernel),
        unit_(unit()),
        kernel_(w_.channels * features_) {}

  // As above.
  std::vector<Phase> list(Scratch& scratch) {
    constexpr int64_t kSums = int64_t{8} << 20;  // numbers, in all parts
    const int64_t numbers = kNumbers * kernel_, zeros = std::max(w_.channels, features_);
    const int64_t blocks = divided_up(Tiles<Number>(w_, nullptr).count(), kTilesAtOnce);
    parts_ = std::clamp<int64_t>(kSums / numbers, 2, std::min(kEnoughTasks, std::max<int64_t>(2, blocks)));
    sums_ = scratch.get<float>(parts_ * numbers + zeros);
    std::fill_n(sums_ + parts_ * numbers, zeros, 0.0F);
    const Tiles<Number> tiles(w_, reinterpret_cast<const Number*>(sums_ + parts_ * numbers));
    const int64_t panels = unit_.panels(features_), groups = std::min(panels, divided_up(kEnoughTasks, parts_));
    const int64_t group = divided_up(panels, groups) * unit_.panel;
    const auto sum_up = [=, this](int64_t task) {
      const int64_t column = task / parts_ * group;
      if (column < features_) add(tiles, task % parts_, column, std::min(group, features_ - column));
    };
    return {{parts_ * groups, sum_up}, {w_.channels, [this](int64_t channel) { finish(channel); }}};
  }

 private:
  // The sums of a part of the tiles for `count` features from `column` on.
  void add(const Tiles<Number>& tiles, int64_t part, int64_t column, int64_t count) const {
    const int64_t each = divided_up(tiles.count(), parts_), last = std::min(tiles.count(), (part + 1) * each);
    float* sums = sums_ + part * kNumbers * kernel_ + column;
    if (part * each >= last) {  // more parts than tiles
      for (int64_t row = 0; row < kNumbers * w_.channels; ++row) std::fill_n(sums + row * features_, count, 0.0F);
    }
    for (int64_t first = part * each; first < last; first += kTilesAtOnce) {
      add_tiles(tiles, first, std::min(kTilesAtOnce, last - first), column, count, sums, first == part * each);
    }
  }

  void add_tiles(const Tiles<Number>& tiles, int64_t first, int64_t tile_count, int64_t column, int64_t count, float* sums,
                 bool fresh) const {
    thread_local Scratch scratch, packed_scratch;
    const int64_t seen = tile_count * w_.channels, made = tile_count * count;
    float* v = scratch.get<float>(kNumbers * (seen + made));
    float* d = v + kNumbers * seen;
    const auto transform_seen = Transforms<Number>::input();
    const auto transform_made = Transforms<Number>::cotangent();
    for (int64_t t = 0; t < tile_count; ++t) {
      transform_seen(tiles.pixels(x_, first + t).data(), w_.channels, v + t * w_.channels, seen);
      auto places = tiles.template places<const Number>(dy_, features_, first + t, nullptr);
      for (const Number*& place : places) place = place ? place + column : tiles.zeros();
      transform_made(places.data(), count, d + t * count, made);
    }
    auto* packed = packed_scratch.get<uint8_t>(unit_.packed_bytes(count, tile_count));
    for (int64_t i = 0; i < kNumbers; ++i) {
      unit_.pack(matrix(d + i * made, count, tile_count, 1, count), 0, unit_.panels(count), 0, unit_.steps(tile_count), packed);
      const Panels right = unit_.part(packed, tile_count, count, 0, unit_.panels(count));
      unit_.multiply(matrix(v + i * seen, w_.channels, tile_count, 1, w_.channels), right, sums + i * kernel_, features_,
                     fresh);
    }
  }

  void finish(int64_t channel) const {
    thread_local Scratch scratch;
    const bool apart = dkernel_.dtype != DType::kF32;
    float* to = apart ? scratch.get<float>(kTaps * features_) : static_cast<float*>(dkernel_.data) + channel * features_;
    HWY_DYNAMIC_DISPATCH(transform_sums)
    (sums_ + channel * features_, kernel_, parts_, kNumbers * kernel_, features_, to, apart ? features_ : kernel_);
    for (int64_t tap = 0; apart && tap < kTaps; ++tap) {
      narrow(to + tap * features_, features_, bf16_at(dkernel_.data, tap * kernel_ + channel * features_));
    }
  }

  const Windows w_;
  const int64_t features_;
  const Number *const x_, *const dy_;
  const Destination dkernel_;
  const Unit& unit_;
  const int64_t kernel_;  // numbers of a tap
  int64_t parts_ = 0;
  float* sums_ = nullptr;  // [parts, 16, channels, features]
};

// Calls act(zero of the type that numbers of this dtype have in memory).
void with_numbers(DType dtype, const auto& act) { dtype == DType::kF32 ? act(float{}) : act(uint16_t{}); }

}  // namespace

bool takes_winograd(const Convolution& c) {
  const Windows& w = c.windows;
  const auto fits = [](int64_t numbers) { return numbers % kLanes == 0 && numbers >= kLeastNumbers; };
  // Where bf16 has instructions of its own, its products take half the time of f32's or less.
  const bool multiplied_as_f32 = unit_for(c.dtype).dtype == DType::kF32;
  return multiplied_as_f32 && w.window == 3 && windows_back(c).has_value() && fits(w.channels) && fits(c.features);
}

namespace {

template <class Number>
TransformedKernel<Number> transformed_kernel(const Convolution& c, const void* kernel) {
  return {c.windows.channels, c.features, static_cast<const Number*>(kernel), false};
}

}  // namespace

void winograd(const Convolution& c, const void* x, Weights kernel, void* y, const ParallelFor& parallel,
              const NormAfter* norm) {
  CallScratch scratch;
  with_numbers(c.dtype, [&]<class Number>(Number) {
    const auto* packed = kernel.packed ? static_cast<const uint8_t*>(kernel.data) : nullptr;
    Forward<Number> forward(c.windows, transformed_kernel<Number>(c, kernel.data), packed, c.features,
                            static_cast<const Number*>(x), static_cast<Number*>(y), norm);
    parallel(forward.list(scratch));
  });
}

int64_t packed_winograd_bytes(const Convolution& c) { return transformed_kernel<float>(c, nullptr).bytes(); }

void pack_winograd(const Convolution& c, const void* kernel, uint8_t* to, const ParallelFor& parallel) {
  with_numbers(c.dtype, [&]<class Number>(Number) { parallel({transformed_kernel<Number>(c, kernel).pack_to(to)}); });
}

void winograd_input_gradient(const Convolution& c, const void* dy, const void* kernel, void* dx, const ParallelFor& parallel) {
  CallScratch scratch;
  with_numbers(c.dtype, [&]<class Number>(Number) {
    const TransformedKernel<Number> turned(c.features, c.windows.channels, static_cast<const Number*>(kernel), true);
    Forward<Number> forward(windows_back(c).value(), turned, nullptr, c.windows.channels, static_cast<const Number*>(dy),
                            static_cast<Number*>(dx), nullptr);
    parallel(forward.list(scratch));
  });
}

void winograd_kernel_gradient(const Convolution& c, const void* x, const void* dy, Destination dkernel,
                              const ParallelFor& parallel) {
  CallScratch scratch;
  with_numbers(c.dtype, [&]<class Number>(Number) {
    KernelGradient<Number> gradient(c, static_cast<const Number*>(x), static_cast<const Number*>(dy), dkernel);
    parallel(gradient.list(scratch));
  });
}

}  // namespace tessera::host
#endif
