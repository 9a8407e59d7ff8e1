#include "state/saved_parts.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <thread>

#include "checkpoint/kept_words.h"
#include "checkpoint/manager.h"
#include "pjrt/client.h"
#include "state/device_arrays.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::train {
namespace {

const std::vector<nn::ParamSpec> kSpecs = {{"embed/kernel", {DType::kF32, {48, 64}}, {}, false},
                                           {"blocks/attn/kernel", {DType::kF32, {3, 16, 32}}, {}, true},
                                           {"blocks/attn/bias", {DType::kF32, {3, 32}}, {}, true},
                                           {"head/kernel", {DType::kF32, {64, 24}}, {}, false},
                                           {"head/bias", {DType::kF32, {5}}, {}, false}};

state::StateLayout layout_on(const std::string& mesh, int64_t devices, const std::string& preset = "fully_sharded") {
  state::StateLayout layout = state::param_layout(kSpecs);
  mesh::ShardingOptions sharding;
  sharding.preset = preset;
  sharding.rules = {"params/blocks/attn/bias = fsdp(min_size=1)"};
  lay_out(layout, mesh::parse_mesh(mesh, devices, "mesh"), sharding);
  return layout;
}

int64_t bytes_of(const state::StateLayout& layout, const std::vector<state::SavedPart>& parts) {
  int64_t bytes = 0;
  for (const state::SavedPart& part : parts) bytes += byte_count({layout.entries[part.entry].type.dtype, part.box.dims});
  return bytes;
}

TEST(SavedParts, ProcessesHaveAllOfTheStateWhereTheMeshCopiesItForEach) {
  const auto whole = [](const char* mesh, int64_t processes) { return state::whole_in_each(layout_on(mesh, 8), processes); };
  EXPECT_TRUE(whole("replica=8", 8));
  EXPECT_TRUE(whole("replica=2, fsdp=4", 2));
  EXPECT_FALSE(whole("replica=2, fsdp=4", 4));
  EXPECT_TRUE(whole("fsdp=8", 1));
  EXPECT_FALSE(whole("fsdp=8", 2));
  EXPECT_FALSE(whole("fsdp=4, replica=2", 2)) << "each has copies of a half";
  EXPECT_FALSE(state::whole_in_each(layout_on("replica=3, fsdp=2", 6), 2)) << "the second has them the other way round";
}

TEST(SavedParts, AProcessHoldsWhatItsDevicesHold) {
  for (const char* mesh : {"fsdp=8", "replica=8", "replica=2, fsdp=4", "fsdp=4, tensor=2"}) {
    const state::StateLayout layout = layout_on(mesh, 8);
    for (const int64_t process : {0, 1}) {
      const state::HeldParts held(layout, process, 2);
      for (size_t i = 0; i < layout.entries.size(); ++i) {
        const state::StateEntry& entry = layout.entries[i];
        std::set<Dims> own;
        for (int64_t device = 4 * process; device < 4 * (process + 1); ++device)
          own.insert(state::shard_box(layout, i, device).offset);
        for (int64_t device = 0; device < 8; ++device) {
          const Placed box = state::shard_box(layout, i, device);
          Placed block = box;
          if (entry.stacked())
            block = {Dims(box.dims.begin() + 1, box.dims.end()), Dims(box.offset.begin() + 1, box.offset.end())};
          const std::string name = entry.stacked() ? entry.part_name(box.offset[0]) : entry.name;
          EXPECT_EQ(held.has(name, block), own.contains(box.offset)) << mesh << " " << name << " on device " << device;
        }
        const Dims& whole = entry.part_type().dims;
        EXPECT_TRUE(entry.stacked() || held.has(entry.name, {whole, Dims(whole.size(), 0)})) << mesh << " " << entry.name;
      }
      EXPECT_FALSE(held.has("params/absent", {{1}, {0}}));
    }
  }
}

TEST(SavedParts, EverythingOnceFromDevicesOfItsOwn) {
  for (const char* mesh : {"fsdp=8", "replica=8", "replica=2, fsdp=4", "replica=4, fsdp=2", "fsdp=4, tensor=2"}) {
    const state::StateLayout layout = layout_on(mesh, 8);
    for (const int64_t processes : {1, 2, 4, 8}) {
      const auto shares = state::share_out(layout, processes);
      ASSERT_EQ(shares.size(), static_cast<size_t>(processes));
      std::vector<std::vector<int>> written(layout.entries.size());
      for (size_t i = 0; i < written.size(); ++i)
        written[i].assign(static_cast<size_t>(element_count(layout.entries[i].type.dims)), 0);
      for (int64_t p = 0; p < processes; ++p) {
        for (const state::SavedPart& part : shares[static_cast<size_t>(p)]) {
          const Dims& dims = layout.entries[part.entry].type.dims;
          const std::vector<int> ones(static_cast<size_t>(element_count(part.box.dims)), 1);
          std::vector<int> here(written[part.entry].size(), 0);
          copy_common(part.box, std::as_bytes(std::span(ones)).data(), {dims, Dims(dims.size(), 0)},
                      std::as_writable_bytes(std::span(here)).data(), sizeof(int));
          std::transform(here.begin(), here.end(), written[part.entry].begin(), written[part.entry].begin(), std::plus<>());
          for (const int64_t device : part.devices) EXPECT_EQ(device / (8 / processes), p) << mesh;
        }
      }
      for (const auto& counts : written) EXPECT_EQ(std::set<int>(counts.begin(), counts.end()), std::set<int>{1}) << mesh;
    }
  }
}

TEST(SavedParts, OneProcessSavesWholeArrays) {
  const state::StateLayout layout = layout_on("replica=2, fsdp=4", 8);
  const auto shares = state::share_out(layout, 1);
  ASSERT_EQ(shares[0].size(), layout.entries.size());
  for (size_t i = 0; i < shares[0].size(); ++i) EXPECT_EQ(shares[0][i].box.dims, layout.entries[i].type.dims);
}

TEST(SavedParts, WhatOthersHoldTooHasFilesOfItsOwn) {
  state::StateLayout layout =
      state::param_layout({{"bias", {DType::kF32, {5}}, {}, false}, {"kernel", {DType::kF32, {48, 64}}, {}, false}});
  lay_out(layout, mesh::parse_mesh("fsdp=8", 8, "mesh"), mesh::ShardingOptions());
  size_t shared = 0;
  for (const auto& share : state::share_out(layout, 4)) {
    const auto first = std::find_if(share.begin(), share.end(), [](const state::SavedPart& part) { return part.shared; });
    EXPECT_TRUE(std::all_of(first, share.end(), [](const state::SavedPart& part) { return part.shared; })) << "they come last";
    for (auto part = first; part != share.end(); ++part) EXPECT_EQ(layout.entries[part->entry].name, "params/bias");
    shared += static_cast<size_t>(share.end() - first);
    size_t next = 0;
    for (const checkpoint::GroupRange& group : state::group_parts(layout, share)) {
      EXPECT_EQ(group.begin, next);
      EXPECT_EQ(share[group.begin].shared, share[group.end - 1].shared);
      next = group.end;
    }
    EXPECT_EQ(next, share.size());
  }
  EXPECT_EQ(shared, 1u) << "it is saved once";
}

// Whether each holds a share or a copy of everything.
TEST(SavedParts, TheWorkIsEven) {
  std::vector<nn::ParamSpec> many;
  for (int i = 0; i < 64; ++i) many.push_back({fmt::format("dense{}/kernel", i), {DType::kF32, {256, 64 + i}}, {}, false});
  for (const char* mesh : {"fsdp=256", "replica=256", "replica=16, fsdp=16"}) {
    state::StateLayout layout = state::param_layout(many);
    mesh::ShardingOptions sharding;
    lay_out(layout, mesh::parse_mesh(mesh, 256, "mesh"), sharding);
    const int64_t processes = 32;
    for (const auto& share : state::share_out(layout, processes))
      EXPECT_NEAR(static_cast<double>(bytes_of(layout, share)), static_cast<double>(layout.bytes()) / processes,
                  0.25 * static_cast<double>(layout.bytes()) / processes)
          << mesh;
  }
}

// Two, four and eight processes, to which equal parts of eight devices belong, save what their devices hold: the arrays come
// back whole.
TEST(SavedParts, ProcessesSaveOneCheckpointTogether) {
  const auto client =
      pjrt::Client::create(pjrt::Plugin::load(testing::cpu_plugin_path()), {.cpu_device_count = 8, .create_options = {}});
  for (const char* mesh : {"fsdp=8", "replica=2, fsdp=4"}) {
    const state::StateLayout layout = layout_on(mesh, 8);
    state::HostArrays arrays;
    float next = 0;
    for (const state::StateEntry& entry : layout.entries) {
      std::vector<float> values(static_cast<size_t>(element_count(entry.type.dims)));
      std::iota(values.begin(), values.end(), next);
      next += static_cast<float>(values.size());
      arrays.push_back(store::copy_bytes(std::as_bytes(std::span(values))));
    }
    for (const int64_t processes : {1, 2, 4, 8}) {
      const testing::TempDir directory;
      std::vector<std::thread> threads;
      const auto words = std::make_shared<testing::KeptWords>();
      for (int64_t p = 0; p < processes; ++p) {
        threads.emplace_back([&, p] {
          checkpoint::Writers writers{.index = p, .count = processes};
          writers.words = words;
          state::DeviceArrays mine = state::to_device(layout, arrays, *client);
          for (int64_t d = 0; d < 8; ++d) {
            if (d / (8 / processes) != p) mine[static_cast<size_t>(d)].clear();
          }
          checkpoint::CheckpointManager manager(directory.path(), {1, 0}, store::local_files(), checkpoint::kMaxBytesInFlight,
                                                writers);
          checkpoint::Snapshot snapshot = state::state_snapshot(layout, mine, writers);
          snapshot.step = 7;
          manager.save_async(std::move(snapshot));
          manager.wait();
          const auto failure = manager.poll_failure();
          EXPECT_FALSE(failure) << failure->message;
        });
      }
      for (std::thread& thread : threads) thread.join();
      const checkpoint::LoadedCheckpoint loaded = checkpoint::load(directory / "step_000000007");
      // With copies of all parts every file is one of shared parts; else the one small array that is not split has a file of its own.
      const bool apart = layout.mesh.text() == "fsdp=8" && processes > 1;
      EXPECT_EQ(loaded.files.size(), static_cast<size_t>(processes) + (apart ? 1 : 0)) << mesh;
      state::check_arrays(layout, loaded.arrays, "test");
      for (size_t i = 0; i < arrays.size(); ++i) {
        const Dims& dims = layout.entries[i].type.dims;
        std::vector<std::byte> read(arrays[i].size());
        state::read_entry(layout.entries[i], loaded.arrays, {dims, Dims(dims.size(), 0)}, read.data());
        EXPECT_EQ(store::as_text(read), store::as_text(arrays[i].data)) << layout.entries[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::train
