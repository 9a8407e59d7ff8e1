#pragma once
// Which devices a program's CompileOptionsProto is about.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::joint {

// `options`, with own devices where they name none and this process has enough for the program, as XLA's client for GPUs does
// (StreamExecutorGpuClient::GetDefaultDeviceAssignment); `own` are their ids. The inner plugin would take the first of all.
std::string with_devices(std::string_view options, const std::vector<int64_t>& own);

}  // namespace tessera::joint
