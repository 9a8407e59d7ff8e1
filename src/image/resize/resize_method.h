#pragma once
// Whose resize, and which of its filters: Pillow's (resize.h) or TensorFlow's (tensorflow_resize.h).

#include <variant>

#include "image/resize/resize.h"
#include "image/resize/tensorflow_resize.h"

namespace tessera::image {

using ResizeMethod = std::variant<Filter, TensorflowMethod>;

}  // namespace tessera::image
