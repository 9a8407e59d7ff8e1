#pragma once
// SVG -> pixels by librsvg, which is loaded when it is first needed: the program runs without it.

#include <string>

#include "image/image.h"

namespace tessera::report {

// On white, each unit of the SVG `scale` pixels long. Throws a data Error where the library is missing or refuses the text.
image::Image rasterise_svg(const std::string& svg, double scale);

}  // namespace tessera::report
