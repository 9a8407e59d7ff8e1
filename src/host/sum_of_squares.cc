#include "host/sum_of_squares.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "host/call.h"
#include "host/kernel.h"
#include "ir/manual.h"
#include "ir/ops.h"

namespace tessera::host {
namespace {

constexpr int64_t kLanes = 32;      // sums that grow side by side
constexpr int64_t kBlock = 4096;    // numbers that are added up in f32; the rest is done in f64
constexpr int64_t kTask = 1 << 16;  // numbers that a thread takes at a time

// Of up to kBlock numbers. The compiler makes vectors of the lanes.
double of_block(std::span<const float> numbers) {
  float lanes[kLanes] = {};
  const size_t whole = numbers.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += numbers[i + lane] * numbers[i + lane];
  }
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  for (const float number : numbers.subspan(whole)) sum += number * number;
  return sum;
}

double of_part(std::span<const float> numbers) {
  double sum = 0;
  for (size_t i = 0; i < numbers.size(); i += kBlock)
    sum += of_block(numbers.subspan(i, std::min<size_t>(kBlock, numbers.size() - i)));
  return sum;
}

}  // namespace

float sum_of_squares(std::span<const std::span<const float>> arrays, const ParallelFor& parallel) {
  std::vector<std::span<const float>> parts;
  for (const std::span<const float> array : arrays) {
    for (size_t i = 0; i < array.size(); i += kTask)
      parts.push_back(array.subspan(i, std::min<size_t>(kTask, array.size() - i)));
  }
  std::vector<double> sums(parts.size());
  parallel({{static_cast<int64_t>(parts.size()), [&](int64_t i) { sums[i] = of_part(parts[i]); }}});
  double total = 0;
  for (const double sum : sums) total += sum;
  return static_cast<float>(total);
}

// ---- as a call

namespace {

bool sum_call(const Call& call) {
  if (!call.has(call.arguments(), 1) || !call.result(0).has(1)) return false;
  std::vector<std::span<const float>> arrays;
  for (size_t i = 0; i < call.arguments(); ++i) {
    const auto array = call.argument(i);
    int64_t count = 1;
    for (const int64_t dim : array.dims) count *= dim;
    arrays.emplace_back(array.data, static_cast<size_t>(count));
  }
  *call.result(0).data = sum_of_squares(arrays, call.parallel());
  return true;
}

// Parts of arrays are left to the partitioner: each device then adds up its own.
bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const bool whole = !devices.mesh || devices.mesh->size("replica") == devices.mesh->devices();
  return composite.name() == "sum_of_squares" && !operands.empty() && all_f32(operands) && whole;
}

// Every device has the arrays whole, and adds up all of them.
ir::Values call_whole(const ir::Composite& composite, const ir::Values& operands, const Types& results, Selection& selection) {
  const auto call = [&](const ir::Values& arrays) {
    return ir::ffi_call(call_target(composite.name()), arrays, results, composite.encoded());
  };
  if (!selection.devices.mesh) return call(operands);
  return ir::shard_map(*selection.devices.mesh, operands, std::vector<int64_t>(operands.size(), ir::kWhole), call, ir::kWhole);
}

constexpr Function kFunction{"sum_of_squares", sum_call};
constexpr Entry kFunctions[] = {kEntry<kFunction>};

}  // namespace

constinit const Kernel kSumOfSquares{.functions = kFunctions, .takes = takes, .call = call_whole};

}  // namespace tessera::host
