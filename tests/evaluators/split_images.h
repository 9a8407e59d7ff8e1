#pragma once
// Splits of any size for evaluators: pictures of 8 x 8 in seven classes, with texts.

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "store/temp_dir.h"
#include "train/json_lines.h"
#include "train/process/device.h"
#include "train/small_run.h"

namespace tessera::testing {

inline constexpr int64_t kSplitClasses = 7, kSplitSize = 8;

struct Picture {
  int32_t label = 0;
  std::string id;
  std::vector<uint8_t> rgb;
  std::vector<std::string> texts;  // one to three
};

// Image i is of class i mod 7, which tints it a little; as a folder's source lists them: class after class.
inline std::vector<Picture> pictures(int64_t count, uint64_t seed) {
  std::vector<Picture> all;
  for (int64_t label = 0; label < kSplitClasses; ++label) {
    for (int64_t i = label; i < count; i += kSplitClasses) {
      Picture& one = all.emplace_back(Picture{static_cast<int32_t>(label), fmt::format("c{}/{:04}.png", label, i)});
      Rng rng(seed, static_cast<uint64_t>(i));
      for (int64_t p = 0; p < kSplitSize * kSplitSize * 3; ++p) {
        const bool tinted = p % 3 == label % 3;
        one.rgb.push_back(static_cast<uint8_t>(rng.below(150) + (tinted ? 20 + 10 * static_cast<uint64_t>(label) : 0)));
      }
      for (int64_t text = 0; text <= i % 3; ++text) one.texts.push_back(fmt::format("{} {} {}", label, i, text));
    }
  }
  return all;
}

// Writes a folder of `count` of them.
inline void write_pictures(const std::string& path, int64_t count, uint64_t seed) {
  for (int64_t label = 0; label < kSplitClasses; ++label) {
    std::filesystem::create_directories(fmt::format("{}/c{}", path, label));
  }
  for (const Picture& one : pictures(count, seed)) write_png(path + "/" + one.id, kSplitSize, kSplitSize, one.rgb);
}

// The folders `train`, of 140 pictures of seed 1, and `val`, of 1003 of seed 2.
inline const TempDir& split_folder() {
  static const TempDir dir;
  static const bool made = [] {
    write_pictures(dir / "train", 140, 1);
    write_pictures(dir / "val", 1003, 2);
    std::string names;
    for (int64_t label = 0; label < kSplitClasses; ++label) names += fmt::format("c{}\n", label);
    spill(dir / "classes.txt", names);
    return true;
  }();
  TESSERA_CHECK(made);
  return dir;
}

// A source of the first `count` pictures of `val`, which may lack classes.
inline std::string split_source(int64_t count) {
  std::string lines;
  for (const Picture& one : pictures(count, 2)) {
    lines += nlohmann::json({{"image", one.id}, {"label", one.label}, {"captions", one.texts}}).dump() + "\n";
  }
  const std::string& root = split_folder().path();
  const std::string path = fmt::format("{}/{}.jsonl", root, count);
  if (!std::filesystem::exists(path)) spill(path, lines);
  return fmt::format("jsonl({0}, root={1}/val, classes={1}/classes.txt, text=captions)", path, root);
}

inline train::DeviceOptions devices(int64_t count) {
  train::DeviceOptions options = small_run().options("unused").device;
  options.devices = count;
  return options;
}

}  // namespace tessera::testing
