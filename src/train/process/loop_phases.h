#pragma once
// Phases of the training loop (base/system/spans.h) in which it may be held up: by its input, or by the devices and, where the
// plugin sums over processes, by those of other processes. HangWatch knows them by these names, and profiles show them.

namespace tessera::train {

inline constexpr const char* kWaitForInput = "wait for input";
inline constexpr const char* kTransfer = "transfer";
inline constexpr const char* kWaitForTransfer = "wait for transfer";
inline constexpr const char* kDispatch = "dispatch";
inline constexpr const char* kWaitForDevice = "wait for the device";
// Their numbers count the batches of an evaluation from 0.
inline constexpr const char* kEvaluationInput = "evaluation: input";
inline constexpr const char* kEvaluationBatch = "evaluation: batch";

}  // namespace tessera::train
