#pragma once
// Image files as rows of a batch.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/transform/pp.h"
#include "models/model.h"

namespace tessera::inference {

// Reads in parallel. `pp` must outlive it.
class RowReader {
 public:
  RowReader(const data::Pp& pp, const image::DecodeLimits& limits, int64_t rows);
  // Each path's image into its row of `rows` (Pp::image_bytes() each), and why there is none; empty: there is one.
  std::vector<std::string> read(std::span<const std::string> paths, uint8_t* rows);

 private:
  const data::Pp& pp_;
  std::vector<data::PpScratch> scratch_;
};

// A usage Error where the chain makes images of another size than the model's.
void check_size(const data::Pp& pp, const models::InputShape& in);

// The rows of a batch for so many images, `most` at most: few programs serve every number of images.
size_t rows_for(size_t images, size_t most);

}  // namespace tessera::inference
