#pragma once
// The matrix unit's code (host/units/tiles.cc) with its instructions computed by ordinary ones, for processors that have AVX-512 but no
// such unit.

#include "host/units/unit.h"

namespace tessera::host {

bool emulated_tiles_run_here();
const Unit& emulated_tile_unit();
const Unit& emulated_tile_bf16_unit();

}  // namespace tessera::host
