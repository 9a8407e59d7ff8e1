#pragma once
// A data set of coloured squares that a ViT of a few hundred weights learns in some steps, and a recipe for it.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spng.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/rng.h"
#include "config/section.h"
#include "store/temp_dir.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "train/trainer.h"

namespace tessera::testing {

inline void write_png(const std::string& path, uint32_t width, uint32_t height, const std::vector<uint8_t>& rgb) {
  spng_ctx* ctx = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{width, height, 8, SPNG_COLOR_TYPE_TRUECOLOR, 0, 0, 0};
  spng_set_ihdr(ctx, &header);
  spng_encode_image(ctx, rgb.data(), rgb.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  size_t size = 0;
  int error = 0;
  void* png = spng_get_png_buffer(ctx, &size, &error);
  spill(path, std::string(static_cast<const char*>(png), size));
  std::free(png);
  spng_ctx_free(ctx);
}

// `count` images of 10 x 10 in three classes (which channel is bright), under `root`/{red,green,blue}.
inline void make_images(const std::string& root, int count, uint64_t seed) {
  const char* names[] = {"blue", "green", "red"};
  for (const char* name : names) std::filesystem::create_directories(root + "/" + name);
  for (int i = 0; i < count; ++i) {
    Rng rng(seed, static_cast<uint64_t>(i));
    const int label = i % 3;
    std::vector<uint8_t> rgb(300);
    for (size_t p = 0; p < rgb.size(); ++p) {
      rgb[p] = static_cast<uint8_t>(rng.below(150) + (static_cast<int>(p % 3) == 2 - label ? 80 : 0));
    }
    write_png(fmt::format("{}/{}/{:03}.png", root, names[label], i), 10, 10, rgb);
  }
}

// A folder with `train` (60 images), `val` (23) and room for runs.
class SmallRun {
 public:
  SmallRun() {
    make_images(dir_ / "train", 60, 1);
    make_images(dir_ / "val", 23, 2);
  }
  std::string path(const std::string& name) const { return dir_ / name; }

  std::string recipe() const {
    return fmt::format(R"toml(
seed       = 0
total      = "12 steps"
log        = "2 steps"
checkpoint = {{ every = "4 steps", keep = 2 }}
data       = {{ source = "folder({0}/train)", batch = 12, threads = 2, pp = "decode | random_crop(8) | flip_lr | value_range(-1, 1)" }}
model      = {{ name = "vit", width = 16, depth = 2, heads = 2, patch = 4, pool = "gap" }}
objective  = {{ name = "softmax", label_smoothing = 0.1 }}
optimizer  = {{ name = "adamw", lr = "cosine(3e-3, warmup=4 steps)", weight_decay = 0.05, clip = "norm(1.0)" }}
[eval.val]
type = "classification"
data = {{ source = "folder({0}/val)", pp = "decode | central_crop(8) | value_range(-1, 1)" }}
every = "3 steps"
batch = 10
)toml",
                       dir_.path());
  }
  config::Section section(const std::vector<std::string>& overrides = {}) const {
    return config::parse_recipe(recipe(), "small.toml", overrides);
  }
  train::TrainOptions options(const std::string& workdir) const {
    train::TrainOptions options;
    options.workdir = dir_ / workdir;
    options.device.plugin = testing::cpu_plugin_path();
    options.device.cache = pjrt::ExecutableCache(testing::cache_path());
    return options;
  }
  train::TrainResult train(const std::string& workdir, const std::vector<std::string>& overrides = {}) const {
    return train::train(section(overrides), options(workdir));
  }

  // Why a run does not go on, checking the exit code; "no error" where it does.
  std::string failure(const std::string& workdir, const std::vector<std::string>& overrides, Exit code) const {
    try {
      train(workdir, overrides);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "no error";
  }
  std::string step_of(const std::string& workdir, int64_t step) const {
    return fmt::format("{}/checkpoints/step_{:09}", path(workdir), step);
  }
  std::string weights_of(const std::string& workdir, int64_t step) const {
    return slurp(step_of(workdir, step) + "/state.safetensors");
  }

 private:
  TempDir dir_;
};

// The data set is made once for all tests of a process; compiled programs stay beside the test's program, for every process.
inline SmallRun& small_run() {
  static SmallRun run;
  return run;
}

}  // namespace tessera::testing
