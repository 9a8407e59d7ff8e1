// Times one training step of Tessera: the program that `tessera train` compiles for the same recipe, on a batch that is already
// on the device.
//
//   bench_step TASK BATCH STEPS [key=value …]      as in a recipe: model.remat=dots dtype=bf16; and platform=cuda, kernels=false,
//                                                  cudnn=false (attention of GPUs in plain ops)
//
// Prints {"name", "batch", "compile_seconds", "seconds": [one for each timed step], "cpu_seconds": [the same], "loss",
// "state_bytes", "temporary_bytes", "peak_bytes"}. With STEPS 0, the program's text is printed instead and nothing is run.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "config/section.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "pjrt/plugin/stderr_filter.h"
#include "train/process/device.h"
#include "train/step/compile.h"
#include "train/step/hardware.h"
#include "train/step/step.h"

namespace tessera {
namespace {

// Two steps come first that are not timed: the first touches every page, the second finds caches warm.
constexpr int kWarmup = 2;

struct Task {
  const char* name;
  models::InputShape input;
  const char* recipe;
};

// What the peers in bench/peers do too: AdamW, weight decay 1e-4, exact GELU, mean pooling, learned positions.
constexpr const char* kViTSmall = R"toml(
model = { name = "vit", variant = "S/16", pool = "gap", gelu = "exact" }
optimizer = { name = "adamw", lr = "1e-3", weight_decay = 1e-4, decay_mask = "all" }
)toml";
constexpr const char* kDigits = R"toml(
model = { name = "vit", width = 96, depth = 6, heads = 3, patch = 4, pool = "gap", gelu = "exact" }
optimizer = { name = "adamw", lr = "1e-3", weight_decay = 0.05, decay_mask = "all", clip = "norm(1.0)" }
)toml";
// A variant of timm's.
#define TESSERA_VARIANT(family, variant)                  \
  "model = { name = \"" family "\", variant = \"" variant \
  "\" }\noptimizer = { name = \"adamw\", lr = \"1e-3\", weight_decay = 1e-4, decay_mask = \"all\" }\n"
constexpr models::InputShape kImageNet{224, 224, 3, 1000};
const Task kTasks[] = {{"vit_small", kImageNet, kViTSmall},
                       {"vit_small_patch16_224", kImageNet, TESSERA_VARIANT("vit", "vit_small_patch16_224")},
                       {"digits", {16, 16, 3, 10}, kDigits},
                       {"resnet18", kImageNet, TESSERA_VARIANT("resnet", "resnet18")},
                       {"resnet50", kImageNet, TESSERA_VARIANT("resnet", "resnet50")},
                       {"convnext_tiny", kImageNet, TESSERA_VARIANT("convnext", "convnext_tiny")},
                       {"resnext50_32x4d", kImageNet, TESSERA_VARIANT("resnet", "resnext50_32x4d")},
                       {"mixer_s16_224", kImageNet, TESSERA_VARIANT("mixer", "mixer_s16_224")},
                       {"resmlp_12_224", kImageNet, TESSERA_VARIANT("resmlp", "resmlp_12_224")}};
#undef TESSERA_VARIANT

const Task& find_task(const std::string& name) {
  std::vector<std::string> names;
  for (const Task& task : kTasks) {
    if (name == task.name) return task;
    names.emplace_back(task.name);
  }
  throw usage_error(fmt::format("no task '{}'", name), "bench_step", fmt::format("one of {}", fmt::join(names, ", ")));
}

// Of wall time, and of processor time of all threads: the second says more where other programs run too.
struct Clock {
  double wall, cpu;
  static Clock now() {
    return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
            static_cast<double>(std::clock()) / CLOCKS_PER_SEC};
  }
};

class StepBench {
 public:
  StepBench(const Task& task, int64_t batch, const std::vector<std::string>& overrides) : task_(task), batch_(batch) {
    config::Section recipe = config::parse_recipe(task.recipe, task.name, overrides);
    model_ = models::make_model(recipe.section("model"), task.input);
    specs_ = models::parameters(*model_);
    optimizer_ = std::make_unique<optim::Optimizer>(recipe.section("optimizer"), optim::RunLength{1000, batch, 1000 * batch});
    optim::Params params;
    for (const nn::ParamSpec& spec : specs_) params.push_back({spec.name, spec.type, spec.stacked});
    optimizer_->bind(std::move(params));
    layout_ = state::state_layout(specs_, *optimizer_);
    train::ProgramOptions options;
    options.batch = batch;
    options.objective = objectives::make_objective(recipe.section("objective"), {task.input.classes, {}});
    recipe.bind_field("accumulate", &options.accumulate, "");
    bool kernels = true;
    recipe.bind_field("kernels", &kernels, "");
    std::string dtype = "f32";
    recipe.bind_field("dtype", &dtype, "");
    options.compute = parse_dtype(dtype);
    bool cudnn = true;
    recipe.bind_field("cudnn", &cudnn, "");
    spread(recipe);
    recipe.finish();
    options.hardware = train::hardware_of(*client_, pjrt::ExecutableCache(""));
    if (!kernels) options.hardware.kernels = {};
    if (!cudnn) options.hardware.cudnn_works = {};
    options.keeps_activations = options.hardware.gpus;
    const float scale = 2.0f / 255;
    options.pixels = {{scale, scale, scale}, {-1, -1, -1}};
    program_ = train::train_program(*model_, layout_, *optimizer_, options);
  }

  const std::string& text() const { return program_.text; }

  void run(int steps) {
    const pjrt::ExecutableCache off("");
    const train::Compiled init = train::compile(*client_, train::init_program(specs_, layout_), off, {});
    const train::Compiled step = train::compile(*client_, program_, off, {});

    const std::array<uint32_t, 2> key = train::seed_key(0);
    state::DeviceArrays rng = state::replicate(*client_, layout_.mesh, key.data(), {DType::kU32, {2}});
    state::DeviceArrays state = init.executable.execute(state::argument_lists(rng, 1));
    state::DeviceArrays input = make_batch(*client_), numbers = train::place_numbers(step.numbers, *client_, layout_.mesh);

    std::vector<double> seconds, cpu_seconds;
    float loss = 0;
    for (int i = 0; i < kWarmup + steps; ++i) {
      const Clock start = Clock::now();
      state::ArgumentLists arguments = state::argument_lists(state, layout_.entries.size(), &input);
      state::append_arguments(arguments, numbers);
      state = step.executable.execute(arguments);
      loss = state[0].back().to_host<float>()[0];
      if (i < kWarmup) continue;
      const Clock end = Clock::now();
      seconds.push_back(end.wall - start.wall);
      cpu_seconds.push_back(end.cpu - start.cpu);
    }
    const pjrt::CompiledMemory memory = step.executable.memory();
    fmt::print(R"({{"name": "tessera", "batch": {}, "compile_seconds": {:.3f}, "seconds": [{:.5f}], "cpu_seconds": [{:.5f}], )"
               R"("loss": {:.5f}, "state_bytes": {}, "temporary_bytes": {}, "peak_bytes": {}}})"
               "\n",
               batch_, step.report.seconds, fmt::join(seconds, ", "), fmt::join(cpu_seconds, ", "), loss, layout_.bytes(),
               memory.temporaries, memory.peak);
  }

 private:
  state::DeviceArrays make_batch(const pjrt::Client& client) const {
    const TensorType images{DType::kU8, {batch_, task_.input.height, task_.input.width, 3}};
    const TensorType labels{DType::kI32, {batch_}};
    std::vector<uint8_t> pixels(static_cast<size_t>(byte_count(images)));
    std::vector<int32_t> classes(static_cast<size_t>(batch_));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
    for (size_t i = 0; i < classes.size(); ++i)
      classes[i] = static_cast<int32_t>(i * 37 % static_cast<size_t>(task_.input.classes));
    state::DeviceArrays input(static_cast<size_t>(layout_.devices()));
    for (const auto& [data, type] : {std::pair<const void*, TensorType>{pixels.data(), images}, {classes.data(), labels}}) {
      std::vector<pjrt::Upload> uploads = state::send_rows(client, layout_.mesh, data, type);
      for (size_t d = 0; d < uploads.size(); ++d) {
        uploads[d].done_with_host.await();
        input[d].push_back(std::move(uploads[d].buffer));
      }
    }
    return input;
  }

  // `devices=8 mesh=fsdp=8`: virtual devices, sharded as a recipe's default.
  void spread(config::Section& recipe) {
    int64_t devices = 1;
    std::string mesh, platform = "cpu";
    recipe.bind_field("devices", &devices, "");
    recipe.bind_field("platform", &platform, "");
    recipe.bind_field("mesh", &mesh, "");
    mesh::ShardingOptions sharding;
    recipe.section("sharding").bind_part(sharding);
    train::DeviceOptions options;
    options.platform = pjrt::parse_platform(platform);
    options.devices = devices;
    client_ = train::open_client(options);
    if (devices > 1) {
      state::lay_out(layout_, mesh::parse_mesh(mesh, devices), sharding);
    }
  }

  const Task& task_;
  std::shared_ptr<pjrt::Client> client_;
  int64_t batch_;
  std::unique_ptr<models::Model> model_;
  std::vector<nn::ParamSpec> specs_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  state::StateLayout layout_;
  train::Program program_;
};

int run(int argc, char** argv) {
  if (argc < 4) throw usage_error("bench_step TASK BATCH STEPS [key=value …]");
  StepBench bench(find_task(argv[1]), std::atoll(argv[2]), std::vector<std::string>(argv + 4, argv + argc));
  const int steps = std::atoi(argv[3]);
  if (steps > 0) {
    bench.run(steps);
  } else {
    fmt::print("{}", bench.text());
  }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::pjrt::capture_stderr();
  try {
    return tessera::run(argc, argv);
  } catch (const std::exception& error) {
    tessera::log_error(error.what());
    return 1;
  }
}
