#pragma once
// Many small pictures with captions, in one.

#include <string>
#include <vector>

#include "data/image.h"

namespace tessera::cli {

struct Tile {
  data::ImageView image;
  std::string caption;  // ASCII letters (drawn as capitals), digits and common signs; others become a box; cut where it is too long
};

// Tiles of one size in rows, as square as their number allows. Small images are shown enlarged, pixel by pixel.
data::Image contact_sheet(const std::vector<Tile>& tiles);

}  // namespace tessera::cli
