#pragma once
// --model-kwargs: arguments of timm's model class as keys of a recipe's `model`.

#include <cstdint>
#include <string>

#include "models/family.h"
#include "recipe/translate/arguments.h"

namespace tessera::translate {

// The keys in which the model with those arguments differs from the named one, a TOML line each. Usage Errors for an argument
// without a key. `size`: pixels a side that the model takes.
std::string timm_model_keys(const models::Family& family, const models::TimmArchitecture& architecture, const Arguments& args,
                            int64_t size);

}  // namespace tessera::translate
