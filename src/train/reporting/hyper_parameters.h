#pragma once
// The keys of a recipe as TensorBoard's HParams tab compares them.

#include <string>

#include "monitor/record.h"

namespace tessera::train {

// Of a resolved recipe: every key that isn't a table, dotted; lists and times are text.
monitor::HyperParameters hyper_parameters(const std::string& recipe);

}  // namespace tessera::train
