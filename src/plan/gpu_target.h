#pragma once
// Descriptions of GPUs for XLA's compiler where there is no GPU: a GpuTargetConfigProto as text.

#include <string>

namespace tessera::plan {

bool is_gpu(const std::string& chip);
// Of a chip that is_gpu().
std::string gpu_target_config(const std::string& chip);

}  // namespace tessera::plan
