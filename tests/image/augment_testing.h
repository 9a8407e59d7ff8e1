#pragma once
// The pictures of tools/references/augment.py and tensorflow_ops.py, and their steps.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "image/augment/plan.h"

namespace tessera::data::testing {

image::Image augment_picture(const std::string& name);
image::AugmentOp augment_op(const std::string& name);
// {"op": …, "value": …, "filter": …}
image::AugmentStep augment_step(const nlohmann::json& entry);

void set_picture(image::Canvas& canvas, const image::Image& image);

}  // namespace tessera::data::testing
