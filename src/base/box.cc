#include "base/box.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera {
namespace {

// One dimension of the common box: its length, where it begins in either array, and the stride in elements there.
struct Run {
  int64_t count, from_begin, to_begin, from_stride, to_stride;
};

void copy_runs(std::span<const Run> runs, const std::byte* from, std::byte* to, int64_t element) {
  const Run& run = runs[0];
  from += run.from_begin * run.from_stride * element;
  to += run.to_begin * run.to_stride * element;
  if (runs.size() == 1) {
    std::memcpy(to, from, static_cast<size_t>(run.count * element));
    return;
  }
  for (int64_t i = 0; i < run.count; ++i) {
    copy_runs(runs.subspan(1), from + i * run.from_stride * element, to + i * run.to_stride * element, element);
  }
}

}  // namespace

int64_t copy_common(const Placed& from, const std::byte* from_data, const Placed& to, std::byte* to_data,
                    int64_t element_bytes) {
  const size_t rank = from.dims.size();
  TESSERA_CHECK(to.dims.size() == rank && from.offset.size() == rank && to.offset.size() == rank, "boxes of different rank");
  // From the last dimension: as long as both arrays are covered whole, dimensions join into one run.
  std::vector<Run> runs{{1, 0, 0, 1, 1}};
  int64_t from_stride = 1, to_stride = 1, elements = 1;
  bool whole = true;
  for (size_t i = rank; i-- > 0;) {
    const int64_t begin = std::max(from.offset[i], to.offset[i]);
    const int64_t count = std::min(from.offset[i] + from.dims[i], to.offset[i] + to.dims[i]) - begin;
    if (count <= 0) return 0;
    const Run run{count, begin - from.offset[i], begin - to.offset[i], from_stride, to_stride};
    if (whole) {
      runs[0] = {runs[0].count * run.count, run.from_begin * from_stride, run.to_begin * to_stride, 1, 1};
    } else {
      runs.insert(runs.begin(), run);
    }
    whole = whole && count == from.dims[i] && count == to.dims[i];
    from_stride *= from.dims[i];
    to_stride *= to.dims[i];
    elements *= count;
  }
  copy_runs(runs, from_data, to_data, element_bytes);
  return elements;
}

}  // namespace tessera
