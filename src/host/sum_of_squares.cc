#include "host/sum_of_squares.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "host/call.h"
#include "host/kernel.h"
#include "ir/composites.h"
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

bool all_whole(const Devices& devices) { return !devices.mesh || devices.mesh->size("replica") == devices.mesh->devices(); }

// Split arrays of unknown layout are left to the partitioner: each device then adds up its own part.
bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  if (composite.name() != "sum_of_squares" || operands.empty() || !all_f32(operands)) return false;
  return all_whole(devices) || !composite.attributes<ir::SumOfSquares>().specs.empty();
}

// Each device adds up what it has, and the sums of the devices are added up. Arrays that lie in fewer parts than there are
// devices are added up by several of them, and count less.
ir::Value sum_of_parts(const mesh::Mesh& mesh, const ir::Values& operands, const std::vector<mesh::PartitionSpec>& specs,
                       const std::function<ir::Values(const ir::Values&)>& call) {
  const int64_t devices = mesh::batch_parts(mesh);
  const auto own = [&](const ir::Values& local) -> ir::Values {
    std::map<int64_t, ir::Values> arrays;  // by parts
    for (size_t i = 0; i < local.size(); ++i) {
      arrays[element_count(operands[i].dims()) / element_count(local[i].dims())].push_back(local[i]);
    }
    ir::Value sum;
    for (const auto& [parts, some] : arrays) {
      const ir::Value counted = call(some)[0] * (static_cast<double>(parts) / static_cast<double>(devices));
      sum = sum ? sum + counted : counted;
    }
    return {ir::reshape(sum, {1})};
  };
  return ir::sum_all(ir::shard_map_from(mesh, operands, specs, own)[0]);
}

ir::Values sum_of_all(const ir::Composite& composite, const ir::Values& operands, const Types& results, Selection& selection) {
  const auto call = [&](const ir::Values& arrays) {
    return ir::ffi_call(call_target(composite.name()), arrays, results, composite.encoded());
  };
  const std::optional<mesh::Mesh>& mesh = selection.devices.mesh;
  if (!mesh) return call(operands);
  if (!all_whole(selection.devices))
    return {sum_of_parts(*mesh, operands, composite.attributes<ir::SumOfSquares>().specs, call)};
  return ir::shard_map(*mesh, operands, std::vector<int64_t>(operands.size(), ir::kWhole), call, ir::kWhole);
}

constexpr Function kFunction{"sum_of_squares", sum_call};
constexpr Entry kFunctions[] = {kEntry<kFunction>};

}  // namespace

constinit const Kernel kSumOfSquares{.functions = kFunctions, .takes = takes, .call = sum_of_all};

}  // namespace tessera::host
