#pragma once
// Whose resize, and which of its filters: Pillow's (resize.h) or TensorFlow's (tensorflow_resize.h).

#include <variant>

#include "data/resize.h"
#include "data/tensorflow_resize.h"

namespace tessera::data {

using ResizeMethod = std::variant<Filter, TensorflowMethod>;

}  // namespace tessera::data
