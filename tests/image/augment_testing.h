#pragma once
// The pictures of tools/references/images/augment.py and tensorflow_ops.py, and their steps.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "image/augment/plan.h"

namespace tessera::image::testing {

Image augment_picture(const std::string& name);
AugmentOp augment_op(const std::string& name);
// {"op": …, "value": …, "filter": …}
AugmentStep augment_step(const nlohmann::json& entry);

void set_picture(Canvas& canvas, const Image& image);

}  // namespace tessera::image::testing
