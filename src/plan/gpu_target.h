#pragma once
// How XLA's compiler learns of a GPU that is not there: a GpuTargetConfigProto as text.

#include <string>

namespace tessera::plan {

bool is_gpu(const std::string& chip);
// Of a chip that is_gpu().
std::string gpu_target_config(const std::string& chip);

}  // namespace tessera::plan
