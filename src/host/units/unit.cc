#include "host/units/unit.h"

#include "host/units/tiles.h"
#include "host/units/vectors.h"

namespace tessera::host {

const Unit& unit_for(DType dtype) {
  if (dtype != DType::kBF16) return tiles_available() ? tile_unit() : vector_unit();
  if (tiles_available()) return tile_bf16_unit();
  return vector_bf16_available() ? vector_bf16_unit() : vector_unit();
}

}  // namespace tessera::host
