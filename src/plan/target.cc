#include "plan/target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "pjrt/plugin/cuda_toolkit.h"
#include "pjrt/plugin/error.h"
#include "pjrt/topology.h"
#include "plan/gpu_target.h"
#include "train/step/compile.h"

namespace tessera::plan {
namespace {

constexpr const char* kFetch = "tessera plugin install tpu|cuda fetches the plugins that plans need";

// Sizes of slices that exist, smallest first; a plan that doesn't fit proposes the next ones.
struct Slices {
  const char* chip;
  std::vector<const char*> shapes;
};
const std::vector<Slices>& known_slices() {
  static const std::vector<Slices> slices = {
      {"v2", {"2x2", "4x4", "4x8", "8x8", "8x16", "16x16"}},
      {"v3", {"2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32"}},
      {"v4", {"2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16"}},
      {"v5e", {"1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"}},
      {"v5p",
       {"2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16", "16x16x16", "16x20x28"}},
      {"v6e", {"1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"}},
      {"tpu7x", {"2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8"}},
  };
  return slices;
}

std::string listed_topologies() {
  std::string text = "known:";
  for (const Slices& s : known_slices()) {
    std::vector<std::string> names;
    for (const char* shape : s.shapes) names.push_back(fmt::format("{}:{}", s.chip, shape));
    text += "\n  " + join(names, " ");
  }
  return text + "\n  h100:HOSTSxGPUS h200:… b200:… a100:…, as h200:16x8\n  cpu:N (virtual devices), here (the devices at hand)";
}

Error unknown_topology(const std::string& name) {
  return usage_error(fmt::format("there is no topology `{}`", name), "--topology", listed_topologies());
}

// Where ./dev plan-deps puts them, apart from the plugins that programs run on: `.deps/plan` of the checkout that the program
// lies in, some folders up.
std::string plan_environment(const pjrt::PluginPlaces& places) {
  if (const char* named = std::getenv("TESSERA_PLAN_ENV")) return named;
  std::filesystem::path folder = places.program_directory;
  for (int level = 0; level < 4 && folder.has_relative_path(); ++level, folder = folder.parent_path()) {
    std::error_code ignored;
    if (std::filesystem::is_directory(folder / ".deps/plan", ignored)) return (folder / ".deps/plan").string();
  }
  return places.program_directory + "/.deps/plan";
}

std::shared_ptr<pjrt::Plugin> load_plugin(pjrt::Platform platform, const train::DeviceOptions& device) {
  // libtpu lets one process at a time have the chips; a plan wants none, and runs beside others.
  if (platform == pjrt::Platform::kTpu) setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);
  pjrt::PluginPlaces places = pjrt::plugin_places(device.platform == platform ? device.plugin : std::string());
  places.environments.push_back(plan_environment(places));
  std::string path;
  try {
    path = pjrt::find_plugin(platform, places);
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), error.where(), kFetch);
  }
  return pjrt::Plugin::load(path);
}

pjrt::CompileOptions options_for(const train::Program& program, const std::vector<int64_t>& device_ids) {
  pjrt::CompileOptions options;
  options.num_partitions = program.devices;
  options.optimization_level = program.optimization_level;
  options.donated = program.donated;
  options.device_ids = device_ids;
  return options;
}

class TpuSlice final : public Target {
 public:
  TpuSlice(const std::string& name, const pjrt::Chip& chip, int64_t slices, const train::DeviceOptions& device)
      : cache_(device.cache) {
    name_ = slices > 1 ? fmt::format("{} x {}", slices, name) : name;
    chip_ = &chip;
    memory_ = chip.hbm_bytes;
    groups_ = slices;
    plugin_ = load_plugin(pjrt::Platform::kTpu, device);
    pjrt::Options options;
    if (slices > 1) options["num_slices"] = slices;
    try {
      topology_ = std::make_unique<pjrt::Topology>(plugin_, name, options);
    } catch (const pjrt::PjrtError&) {
      throw unknown_topology(name);
    }
    kind_ = topology_->device_kind();
    devices_ = static_cast<int64_t>(topology_->device_ids().size());
  }
  Compiled compile(const train::Program& program) const override {
    const pjrt::CompileOptions options = options_for(program, topology_->device_ids());
    const Hash128 key = pjrt::plan_key(*plugin_, name_, program.text, options);
    return compile_once(cache_, key, true, [&] { return topology_->compile(program.text, options); });
  }

 private:
  const pjrt::ExecutableCache cache_;
  std::shared_ptr<const pjrt::Plugin> plugin_;
  std::unique_ptr<pjrt::Topology> topology_;
};

class GpuCluster final : public Target {
 public:
  GpuCluster(const std::string& name, const pjrt::Chip& chip, int64_t hosts, int64_t gpus, const train::DeviceOptions& device)
      : cache_(device.cache) {
    name_ = name;
    chip_ = &chip;
    memory_ = chip.hbm_bytes;
    groups_ = hosts;
    gpus_ = true;
    spaces_ = {0, 1};  // 1: what collectives use
    plugin_ = load_plugin(pjrt::Platform::kCuda, device);
    target_config_ = gpu_target_config(chip.name);
    const pjrt::Options options{{"target_config", target_config_}, {"topology", fmt::format("1x{}x{}", hosts, gpus)}};
    topology_ = std::make_unique<pjrt::Topology>(plugin_, "", options);
    kind_ = topology_->device_kind();
    devices_ = static_cast<int64_t>(topology_->device_ids().size());
    toolkit_ = pjrt::cuda_toolkit(plugin_->path());
  }
  Compiled compile(const train::Program& program) const override {
    pjrt::CompileOptions options = options_for(program, topology_->device_ids());
    options.flags["xla_gpu_autotune_level"] = int64_t{0};  // there is no device to try on
    const Hash128 key = pjrt::plan_key(*plugin_, name_ + target_config_, program.text, options);  // wherever the toolkit lies
    if (!toolkit_.empty()) options.flags["xla_gpu_cuda_data_dir"] = toolkit_;
    return compile_once(cache_, key, true, [&] { return topology_->compile(program.text, options); });
  }

 private:
  const pjrt::ExecutableCache cache_;
  std::shared_ptr<const pjrt::Plugin> plugin_;
  std::string target_config_;
  std::unique_ptr<pjrt::Topology> topology_;
  std::string toolkit_;  // pjrt::cuda_toolkit()
};

// Devices of a client in this process, real or virtual.
class Local final : public Target {
 public:
  Local(const std::string& name, const train::DeviceOptions& device)
      : cache_(device.cache), client_(train::open_client(device)) {
    name_ = name;
    kind_ = client_->devices()[0].kind;
    devices_ = train::devices_of(device, *client_);
    gpus_ = client_->platform_name() == "cuda";
    const auto known = client_->memory(0);
    if (known && known->limit) {
      memory_ = static_cast<double>(*known->limit);
    } else if (client_->platform_name() == "cpu") {
      memory_ = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
                static_cast<double>(devices_);
    }
  }
  Compiled compile(const train::Program& program) const override {
    const pjrt::CompileOptions options = options_for(program, {});
    const std::string target = fmt::format("{} {} {}", kind_, client_->platform_version(), devices_);
    const Hash128 key = pjrt::plan_key(client_->plugin(), target, program.text, options);
    return compile_once(cache_, key, false, [&] { return client_->compile(program.text, options); });
  }

 private:
  const pjrt::ExecutableCache cache_;
  std::shared_ptr<pjrt::Client> client_;
};

// "16x8" -> {16, 8}; nothing for anything else.
std::optional<std::vector<int64_t>> parse_shape(std::string_view text) {
  std::vector<int64_t> sizes;
  for (const std::string& part : split(text, 'x')) {
    const auto size = parse_number(part);
    if (!size || *size < 1 || *size > 1e6 || *size != static_cast<double>(static_cast<int64_t>(*size))) return std::nullopt;
    sizes.push_back(static_cast<int64_t>(*size));
  }
  return sizes;
}

}  // namespace

std::unique_ptr<Target> open_target(const std::string& name, int64_t slices, const train::DeviceOptions& device) {
  if (name == "here") return std::make_unique<Local>(name, device);
  const size_t colon = name.find(':');
  const auto shape = colon == std::string::npos ? std::nullopt : parse_shape(std::string_view(name).substr(colon + 1));
  if (!shape) throw unknown_topology(name);
  const std::string generation = name.substr(0, colon);
  if (generation == "cpu" && shape->size() == 1) {
    train::DeviceOptions local = device;
    local.platform = pjrt::Platform::kCpu;
    local.devices = shape->front();
    return std::make_unique<Local>(name, local);
  }
  const pjrt::Chip* chip = pjrt::find_chip(generation);
  if (!chip) throw unknown_topology(name);
  if (!is_gpu(generation)) return std::make_unique<TpuSlice>(name, *chip, slices, device);
  if (shape->size() != 2) throw unknown_topology(name);
  if (slices > 1)
    throw usage_error("--slices is about TPU slices", "--slices", "hosts are part of a GPU topology's name: h200:16x8");
  return std::make_unique<GpuCluster>(name, *chip, (*shape)[0], (*shape)[1], device);
}

std::vector<std::string> larger_topologies(const std::string& name) {
  const size_t colon = name.find(':');
  const auto shape = colon == std::string::npos ? std::nullopt : parse_shape(std::string_view(name).substr(colon + 1));
  if (!shape) return {};
  const std::string generation = name.substr(0, colon);
  std::vector<std::string> larger;
  if (is_gpu(generation)) {
    for (int64_t factor = 2; factor <= 64; factor *= 2)
      larger.push_back(fmt::format("{}:{}x{}", generation, (*shape)[0] * factor, (*shape)[1]));
    return larger;
  }
  const auto chips = [](const std::vector<int64_t>& sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    return count;
  };
  for (const Slices& s : known_slices()) {
    if (generation != s.chip) continue;
    for (const char* other : s.shapes) {
      if (chips(*parse_shape(other)) > chips(*shape)) larger.push_back(fmt::format("{}:{}", generation, other));
    }
  }
  return larger;
}

}  // namespace tessera::plan
