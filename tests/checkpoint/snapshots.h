#pragma once
// Small snapshots that differ with their step, and the check that one came back.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manager.h"

namespace tessera::testing {

inline checkpoint::HostTensor make_tensor(std::string name, TensorType type, uint64_t seed) {
  Rng rng(seed, hash_name(name));
  std::vector<std::byte> bytes(static_cast<size_t>(byte_count(type)));
  for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return {std::move(name), std::move(type), store::own_bytes(std::move(bytes))};
}

inline checkpoint::Snapshot make_snapshot(int64_t step) {
  checkpoint::Snapshot snapshot;
  snapshot.step = step;
  const auto seed = static_cast<uint64_t>(step);
  snapshot.add({make_tensor("params/dense/w", {DType::kF32, {3, 4}}, seed),
                make_tensor("params/dense/b", {DType::kBF16, {4}}, seed), make_tensor("step", {DType::kI64, {}}, seed)});
  snapshot.state_json = fmt::format("{{\"position\":{},\"seed\":0}}", step * 128);
  return snapshot;
}

// Cuts an array into `count` boxes (fewer when it has fewer elements) by cuts at random places.
inline std::vector<Placed> cut_randomly(const Dims& dims, size_t count, Rng& rng) {
  std::vector<Placed> boxes{{dims, Dims(dims.size(), 0)}};
  for (int tries = 0; boxes.size() < count && tries < 1000; ++tries) {
    Placed& box = boxes[rng.below(boxes.size())];
    const size_t d = rng.below(dims.size());
    if (box.dims[d] < 2) continue;
    const auto at = static_cast<int64_t>(1 + rng.below(static_cast<uint64_t>(box.dims[d] - 1)));
    Placed rest = box;
    rest.offset[d] += at;
    rest.dims[d] -= at;
    box.dims[d] = at;
    boxes.push_back(std::move(rest));
  }
  return boxes;
}

inline checkpoint::HostTensor slice_of(const checkpoint::HostTensor& whole, const Placed& box) {
  std::vector<std::byte> bytes(static_cast<size_t>(byte_count({whole.type.dtype, box.dims})));
  copy_common(whole.place(), whole.data.data.data(), box, bytes.data(), element_bytes(whole.type.dtype));
  return {whole.name, whole.type, store::own_bytes(std::move(bytes)), box};
}

// The snapshot's arrays as `writers` hosts would save them: each array cut into that many slices, one group a host. Scalars are
// in the first host's group.
inline checkpoint::Snapshot sliced(const std::vector<checkpoint::HostTensor>& arrays, size_t writers, uint64_t seed) {
  Rng rng(seed, writers);
  std::vector<std::vector<checkpoint::HostTensor>> groups(writers);
  for (const checkpoint::HostTensor& array : arrays) {
    if (array.type.dims.empty()) {
      groups[0].push_back(array);
      continue;
    }
    const std::vector<Placed> boxes = cut_randomly(array.type.dims, writers, rng);
    for (size_t i = 0; i < boxes.size(); ++i) groups[i].push_back(slice_of(array, boxes[i]));
  }
  checkpoint::Snapshot snapshot;
  for (auto& group : groups) snapshot.add(std::move(group));
  return snapshot;
}

// A snapshot of five files, with slices in four of them.
inline checkpoint::Snapshot make_sliced_snapshot(int64_t step) {
  const auto seed = static_cast<uint64_t>(step);
  checkpoint::Snapshot snapshot =
      sliced({make_tensor("params/w", {DType::kF32, {6, 4}}, seed), make_tensor("opt/mu/w", {DType::kBF16, {3, 2, 4}}, seed),
              make_tensor("step", {DType::kI32, {}}, seed)},
             4, seed);
  snapshot.add({make_tensor("params/b", {DType::kF32, {4}}, seed), make_tensor("none", {DType::kF32, {0, 4}}, seed)});
  snapshot.step = step;
  snapshot.state_json = fmt::format("{{\"position\":{}}}", step * 128);
  return snapshot;
}

inline void expect_snapshot(const checkpoint::LoadedCheckpoint& loaded, const checkpoint::Snapshot& want) {
  EXPECT_EQ(loaded.step, want.step);
  EXPECT_EQ(loaded.state_json, want.state_json);
  std::set<std::string> names;
  for (const checkpoint::SnapshotGroup& group : want.groups) {
    for (const checkpoint::HostTensor& tensor : group.read()) {
      names.insert(tensor.name);
      const auto got = loaded.arrays.find(tensor.name);
      ASSERT_NE(got, loaded.arrays.end()) << tensor.name;
      EXPECT_EQ(got->second.type, tensor.type);
      std::vector<std::byte> data(tensor.data.size());
      got->second.read(tensor.place(), data.data());
      EXPECT_EQ(store::as_text(data), store::as_text(tensor.data.data)) << tensor.name;
    }
  }
  EXPECT_EQ(loaded.arrays.size(), names.size());
}

}  // namespace tessera::testing
