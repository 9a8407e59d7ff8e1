#include "checkpoint/tiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace tessera::checkpoint {
namespace {

bool inside(const Dims& whole, const Placed& piece) {
  if (piece.dims.size() != whole.size() || piece.offset.size() != whole.size()) return false;
  for (size_t d = 0; d < whole.size(); ++d) {
    // Subtracting, because a hostile sum may not fit.
    if (piece.offset[d] < 0 || piece.offset[d] > whole[d]) return false;
    if (piece.dims[d] < 0 || piece.dims[d] > whole[d] - piece.offset[d]) return false;
  }
  return true;
}

// The dimension along which the pieces begin at the most places: neighbours in it are few.
size_t sweep_dimension(size_t rank, const std::vector<const Placed*>& pieces) {
  size_t best = 0, most = 0;
  for (size_t d = 0; d < rank; ++d) {
    std::set<int64_t> begins;
    for (const Placed* piece : pieces) begins.insert(piece->offset[d]);
    if (begins.size() > most) best = d, most = begins.size();
  }
  return best;
}

std::optional<std::string> overlap_error(size_t rank, std::vector<const Placed*> pieces) {
  const auto error = [](const Placed& a, const Placed& b) {
    return fmt::format("the pieces at {} and {} overlap", to_string(a.offset), to_string(b.offset));
  };
  if (rank == 0) return pieces.size() > 1 ? std::optional(error(*pieces[0], *pieces[1])) : std::nullopt;
  const size_t d = sweep_dimension(rank, pieces);
  std::stable_sort(pieces.begin(), pieces.end(), [&](const Placed* a, const Placed* b) { return a->offset[d] < b->offset[d]; });
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int64_t end = pieces[i]->offset[d] + pieces[i]->dims[d];
    for (size_t j = i + 1; j < pieces.size() && pieces[j]->offset[d] < end; ++j) {
      if (overlap(*pieces[i], *pieces[j])) return error(*pieces[i], *pieces[j]);
    }
  }
  return std::nullopt;
}

}  // namespace

bool overlap(const Placed& a, const Placed& b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    if (a.offset[d] >= b.offset[d] + b.dims[d] || b.offset[d] >= a.offset[d] + a.dims[d]) return false;
  }
  return true;
}

std::optional<std::string> tiling_error(const Dims& whole, std::span<const Placed> pieces) {
  if (pieces.size() > kMaxPieces) return fmt::format("it has {} pieces, more than {}", pieces.size(), kMaxPieces);
  std::vector<const Placed*> with_elements;
  int64_t elements = 0;
  for (const Placed& piece : pieces) {
    if (!inside(whole, piece)) {
      return fmt::format("the piece {} at {} does not lie inside {}", to_string(piece.dims), to_string(piece.offset),
                         to_string(whole));
    }
    if (element_count(piece.dims) > 0) with_elements.push_back(&piece);
  }
  if (auto error = overlap_error(whole.size(), with_elements)) return error;
  // Disjoint pieces inside the array: as many elements as it has are all of it, and the sum fits.
  for (const Placed* piece : with_elements) elements += element_count(piece->dims);
  if (elements == element_count(whole)) return std::nullopt;
  return fmt::format("its pieces hold {} of the {} elements", elements, element_count(whole));
}

}  // namespace tessera::checkpoint
