#pragma once
// Small snapshots that differ with their step, and the check that one came back.

#include <gtest/gtest.h>

#include <string>

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
  snapshot.tensors.push_back(make_tensor("params/dense/w", {DType::kF32, {3, 4}}, seed));
  snapshot.tensors.push_back(make_tensor("params/dense/b", {DType::kBF16, {4}}, seed));
  snapshot.tensors.push_back(make_tensor("step", {DType::kI64, {}}, seed));
  snapshot.state_json = fmt::format("{{\"position\":{},\"seed\":0}}", step * 128);
  return snapshot;
}

inline void expect_snapshot(const checkpoint::LoadedCheckpoint& loaded, const checkpoint::Snapshot& want) {
  EXPECT_EQ(loaded.step, want.step);
  EXPECT_EQ(loaded.state_json, want.state_json);
  ASSERT_EQ(loaded.state.tensors().size(), want.tensors.size());
  for (const checkpoint::HostTensor& tensor : want.tensors) {
    const checkpoint::TensorView& got = loaded.state.at(tensor.name);
    EXPECT_EQ(got.type, tensor.type);
    EXPECT_EQ(store::as_text(got.data), store::as_text(tensor.data.data)) << tensor.name;
  }
}

}  // namespace tessera::testing
