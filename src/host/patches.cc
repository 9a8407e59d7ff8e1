#include "host/patches.h"

#include <algorithm>

namespace tessera::host {
namespace {

// Of a line of a patch, which lies as it does in the picture, the part inside: numbers [begin, end) of it, of which the first
// is number `at` of the picture's line.
struct Inside {
  int64_t begin, end, at;
};

Inside inside(const Patches& p, int64_t column) {
  const int64_t first = column * p.stride - p.padding;  // may be negative
  const int64_t begin = std::max<int64_t>(0, -first), end = std::clamp<int64_t>(p.width - first, begin, p.window);
  return {begin * p.channels, end * p.channels, (first + begin) * p.channels};
}

}  // namespace

void patches_f32(const Patches& p, const float* x, float* out, const ParallelFor& parallel) {
  const int64_t rows = p.rows(), columns = p.columns(), line = p.window * p.channels, pitch = p.width * p.channels;
  parallel({{p.batch * rows, [&](int64_t task) {
               const float* picture = x + task / rows * p.height * pitch;
               float* to = out + task * columns * p.elements();
               const int64_t top = task % rows * p.stride - p.padding;
               for (int64_t column = 0; column < columns; ++column) {
                 const Inside in = inside(p, column);
                 for (int64_t y = top; y < top + p.window; ++y, to += line) {
                   if (y < 0 || y >= p.height) {
                     std::fill_n(to, line, 0.0F);
                     continue;
                   }
                   std::fill(to, to + in.begin, 0.0F);
                   std::copy_n(picture + y * pitch + in.at, in.end - in.begin, to + in.begin);
                   std::fill(to + in.end, to + line, 0.0F);
                 }
               }
             }}});
}

void patches_gradient_f32(const Patches& p, const float* dout, float* dx, const ParallelFor& parallel) {
  const int64_t rows = p.rows(), columns = p.columns(), line = p.window * p.channels, pitch = p.width * p.channels;
  parallel({{p.batch * p.height, [&](int64_t task) {
               const float* patches = dout + task / p.height * rows * columns * p.elements();
               float* to = dx + task * pitch;
               std::fill_n(to, pitch, 0.0F);
               // The picture's line is line y of the patches that begin y lines further up.
               for (int64_t y = 0; y < p.window; ++y) {
                 const int64_t first = task % p.height + p.padding - y;
                 if (first < 0 || first % p.stride != 0 || first / p.stride >= rows) continue;
                 const float* from = patches + first / p.stride * columns * p.elements() + y * line;
                 for (int64_t column = 0; column < columns; ++column, from += p.elements()) {
                   const Inside in = inside(p, column);
                   float* sum = to + in.at;
                   for (int64_t i = in.begin; i < in.end; ++i) sum[i - in.begin] += from[i];
                 }
               }
             }}});
}

}  // namespace tessera::host
