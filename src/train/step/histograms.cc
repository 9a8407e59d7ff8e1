#include "train/step/histograms.h"

#include <fmt/format.h>

#include <numeric>
#include <span>

#include "base/error.h"

namespace tessera::train {
namespace {

using ir::Value;

Dims all_axes(int64_t rank) {
  Dims axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// [kHistogramParts - 1]: how many numbers of x are below each inner edge. Added up over the last dimension as whole numbers, which a
// processor adds several at once, in any order.
Value counts_below(Value x, Value least, Value greatest) {
  std::vector<float> shares;
  for (int64_t part = 1; part < kHistogramParts; ++part) {
    shares.push_back(static_cast<float>(static_cast<double>(part) / static_cast<double>(kHistogramParts)));
  }
  const Value edges = least + (greatest - least) * ir::constant_f32({kHistogramParts - 1}, shares);
  const Value below = ir::convert(ir::compare(ir::Compare::kLt, ir::expand_dims(x, x.rank()), edges), DType::kI32);
  const Value of_rows = ir::convert(ir::sum(below, {x.rank() - 1}), DType::kF32);
  return ir::sum(of_rows, all_axes(of_rows.rank() - 1));
}

monitor::Histogram histogram_of(std::string name, std::span<const float> row, double count) {
  monitor::Histogram out{std::move(name), row[0], row[1], row[2], row[3], {}};
  double before = 0;
  for (const float below : row.subspan(4)) {
    out.counts.push_back(below - before);
    before = below;
  }
  out.counts.push_back(count - before);
  return out;
}

}  // namespace

Value histogram_row(Value x) {
  if (x.rank() == 0) x = ir::reshape(x, {1});
  const Dims axes = all_axes(x.rank());
  const Value least = ir::reduce_min(x, axes), greatest = ir::reduce_max(x, axes);
  ir::Values parts;
  for (const Value scalar : {least, greatest, ir::sum_all(x), ir::sum_all(x * x)}) parts.push_back(ir::reshape(scalar, {1, 1}));
  parts.push_back(ir::reshape(counts_below(x, least, greatest), {1, kHistogramParts - 1}));
  return ir::concatenate(parts, 1);
}

std::vector<monitor::Histogram> read_histograms(const state::StateLayout& layout, const optim::Optimizer& optimizer,
                                                const std::vector<float>& rows) {
  std::vector<monitor::Histogram> out;
  std::span<const float> rest(rows);
  for (size_t i = 0; i < layout.params; ++i) {
    if (!optimizer.trainable(i)) continue;
    const state::StateEntry& entry = layout.entries[i];
    const std::string name = state::param_name(entry);
    for (const char* of : {"params", "updates", "gradients"}) {
      TESSERA_CHECK(rest.size() >= static_cast<size_t>(kHistogramColumns));
      out.push_back(histogram_of(fmt::format("{}/{}", of, name), rest.first(kHistogramColumns),
                                 static_cast<double>(element_count(entry.type.dims))));
      rest = rest.subspan(kHistogramColumns);
    }
  }
  return out;
}

}  // namespace tessera::train
