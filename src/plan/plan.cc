#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "pjrt/client.h"
#include "pjrt/plugin/error.h"
#include "plan/proposals.h"
#include "recipe/recipe.h"
#include "train/reporting/model_flops.h"
#include "train/step/program_options.h"

namespace tessera::plan {
namespace {

// Virtual devices on which a program is counted: enough that each axis is really cut, few enough that a client of them is
// quick.
constexpr int64_t kCountedDevices = 256;

// The same step for fewer devices: the widest batch axis is cut down, and the batch with it, so that each device does the same.
// In f32, because CPUs have no bf16 transfers: the caller halves bytes.
train::Program counted_program(const recipe::Recipe& recipe, state::StateLayout layout) {
  train::ProgramOptions options = train::train_options(recipe, {});
  options.compute = DType::kF32;
  mesh::Mesh mesh = recipe.mesh;
  while (mesh.devices() > kCountedDevices) {
    const auto widest = std::max_element(mesh.axes.begin(), mesh.axes.end(),
                                         [](const mesh::Axis& a, const mesh::Axis& b) { return a.size < b.size; });
    int64_t factor = 2;
    while (widest->size % factor != 0) ++factor;
    widest->size /= factor;
    if (widest->name != "tensor") options.batch /= factor;
  }
  state::lay_out(layout, mesh, recipe.sharding);
  options.teacher = recipe::lay_out(recipe.teacher, mesh, recipe.sharding);
  return train::train_program(*recipe.model, layout, *recipe.optimizer, options);
}

// Those of the program that is counted, whatever platform is planned for.
train::DeviceOptions counting_device(const train::DeviceOptions& device) {
  train::DeviceOptions local = device;
  if (local.platform != pjrt::Platform::kCpu) local.plugin.clear();
  local.platform = pjrt::Platform::kCpu;
  return local;
}

// Counting comes last, after compilations that may take minutes.
void expect_counting_plugin(const train::DeviceOptions& device) {
  try {
    pjrt::find_plugin(pjrt::Platform::kCpu, counting_device(device).plugin);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("a plan counts the step's work in a program for CPUs: {}", error.message()),
                error.where(), error.help());
  }
}

// What the compiled program holds at its worst moment.
void account(const pjrt::HloModule& program, const Target& target, Plan& plan) {
  const std::optional<Liveness> liveness = liveness_of(program, target.main_memory());
  if (!liveness) return;
  plan.accounted = static_cast<double>(liveness->peak);
  plan.at_peak = live_arrays(program, *liveness);
}

}  // namespace

Case::Case(const ReadRecipe& read, const std::vector<std::string>& overrides, int64_t devices, bool gpus)
    : recipe(recipe::read_recipe(read(overrides), devices)),
      layout(recipe::recipe_layout(recipe)),
      program(train::train_program(*recipe.model, layout, *recipe.optimizer,
                                   train::train_options(recipe, gpus ? train::planned_gpus() : train::Hardware{}))) {}

CpuCase compile_on_cpu(const Case& c, const train::DeviceOptions& device) {
  const train::Program program = counted_program(c.recipe, c.layout);
  train::DeviceOptions local = counting_device(device);
  local.devices = program.devices;
  pjrt::CompileOptions options;
  options.num_partitions = program.devices;
  options.donated = program.donated;
  train::compile_quickly(options);  // what is counted is known before there is code
  const auto plugin = pjrt::Plugin::load(pjrt::find_plugin(pjrt::Platform::kCpu, local.plugin));
  const Hash128 key = pjrt::plan_key(*plugin, fmt::format("counted {}", program.devices), program.text, options);
  const Compiled compiled =
      compile_once(device.cache, key, false, [&] { return train::open_client(local)->compile(program.text, options); });
  CpuCase out{count(compiled.program), compiled.memory};
  if (c.recipe.compute == DType::kBF16) {
    out.counts.product_bytes /= 2;
    out.counts.transfer_bytes /= 2;
    for (auto& [kind, collective] : out.counts.collectives) collective.bytes /= 2;
  }
  return out;
}

// What a run would compile (train::compile).
Compiled compile_as_run(const Case& c, const Target& target) {
  if (!c.program.smaller) return target.compile(c.program);
  // XLA's client for GPUs takes three quarters of the memory at its start.
  const auto available = static_cast<int64_t>(0.75 * target.memory_bytes());
  try {
    Compiled compiled = target.compile(c.program);
    if (train::fits_with_the_rest(compiled.memory, available)) return compiled;
  } catch (const Error& error) {
    if (!pjrt::is_out_of_memory(error)) throw;
  }
  return target.compile(*c.program.smaller);
}

std::vector<NamedType> shards_of(const state::StateLayout& layout) {
  std::vector<NamedType> shards;
  for (size_t i = 0; i < layout.entries.size(); ++i) shards.push_back({layout.entries[i].name, layout.shard_type(i)});
  std::stable_sort(shards.begin(), shards.end(),
                   [](const auto& a, const auto& b) { return byte_count(a.type) > byte_count(b.type); });
  return shards;
}

void estimate(const Case& c, const Target& target, Plan& plan) {
  if (!target.chip()) return;
  const bool bf16 = c.recipe.compute == DType::kBF16;
  plan.roofline = roofline({plan.counts, plan.state_bytes, bf16, target.devices(), target.groups()}, *target.chip());
  const double seconds = plan.roofline->seconds(), devices = static_cast<double>(target.devices());
  plan.images_per_second = static_cast<double>(c.recipe.batch) / seconds;
  plan.mfu = train::model_flops(c.recipe) / seconds / devices / (bf16 ? target.chip()->bf16_flops : target.chip()->f32_flops);
}

Plan plan_case(const Case& c, const Target& target, const PlanOptions& options, const CpuCase* cpu) {
  Plan plan;
  plan.topology = target.name();
  plan.device_kind = target.device_kind();
  plan.mesh = c.recipe.mesh.text();
  plan.devices = target.devices();
  plan.parameters = c.layout.param_count();
  plan.batch = c.recipe.batch;
  plan.memory = target.memory_bytes();
  plan.chip = target.chip();
  plan.arguments = static_cast<double>(c.layout.shard_bytes());
  plan.state_bytes = 2 * plan.arguments;
  plan.largest = shards_of(c.layout);
  options.progress(fmt::format("compiling for {}", target.name()));
  try {
    const Compiled compiled = compile_as_run(c, target);
    plan.compile_seconds = compiled.seconds;
    plan.compiled_before = compiled.kept;
    plan.arguments = static_cast<double>(compiled.memory.arguments);
    plan.temporaries = static_cast<double>(compiled.memory.temporaries);
    plan.outputs = static_cast<double>(compiled.memory.outputs);
    plan.peak = static_cast<double>(compiled.memory.at_worst());
    if (!target.chip()) plan.peak = std::max(plan.peak, plan.arguments + plan.temporaries);
    account(compiled.program, target, plan);
    plan.fits = plan.memory == 0 || plan.peak <= plan.memory;
  } catch (const Error& error) {
    if (!pjrt::is_out_of_memory(error)) throw;
    plan.fits = false;
    plan.refusal = error.message();
  }
  options.progress("counting");
  plan.counts = cpu ? cpu->counts : compile_on_cpu(c, options.device).counts;
  estimate(c, target, plan);
  return plan;
}

Plan make_plan(const ReadRecipe& read, const PlanOptions& options) {
  expect_counting_plugin(options.device);
  options.progress(fmt::format("loading {}", options.topology));
  const auto target = open_target(options.topology, options.slices, options.device);
  const Case base(read, {}, target->devices(), target->gpus());
  Plan plan = plan_case(base, *target, options);
  if (!plan.fits && options.propose) plan.proposals = find_proposals(read, base, *target, options);
  return plan;
}

}  // namespace tessera::plan
