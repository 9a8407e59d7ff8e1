#include "recipe/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/text/text.h"
#include "config/other_words.h"
#include "mesh/mesh.h"
#include "recipe/read_parts.h"
#include "recipe/teacher.h"
#include "recipe/weights_chain.h"

namespace tessera::recipe {
namespace {

using config::Section;

constexpr int64_t kMaxKept = 1'000'000;  // checkpoints

// The figures of an evaluator are called NAME/<score>, and must not be taken for those of the run (docs/monitoring.md): `input/loss`
// for a stage of the input, say.
void check_evaluator_name(const Section& evals, const std::string& name) {
  static const std::set<std::string, std::less<>> kOfTheRun = {
      "badput", "epoch", "examples_seen", "img", "input", "lr", "momentum", "y", "z"};
  const std::string first = name.substr(0, name.find('/'));
  if (!kOfTheRun.contains(first)) return;
  evals.fail(name, fmt::format("is no name of an evaluator: the run has figures of its own that begin with {}/", first),
             fmt::format("call it eval.val or eval.{}_val", first));
}

void read_mesh(Section& recipe, int64_t devices, Recipe& out) {
  out.mesh = mesh::parse_mesh(out.run.mesh, devices, recipe.place("mesh"));
  if (const auto [count, joint] = out.processes; joint && !mesh::batch_follows_processes(out.mesh, count)) {
    recipe.fail("mesh",
                fmt::format("is `{}` over {} processes of {} devices, which gives several of them the same rows of a batch",
                            out.mesh.text(), count, devices / count),
                "name replica and fsdp first, and split tensor over the devices of one process");
  }
  Section sharding = recipe.section("sharding");
  sharding.bind(out.sharding);
  const mesh::ShardingRules checked(out.sharding, sharding.where());
  if (out.sharding.reduce != "compute" && out.sharding.reduce != "f32") {
    sharding.fail("reduce", fmt::format("is \"{}\"", out.sharding.reduce), "compute or f32");
  }
}

void read_run(Section& recipe, Recipe& out) {
  recipe.bind_part(out.run);
  const RunOptions& run = out.run;
  if (run.seed < 0) recipe.fail("seed", fmt::format("must not be negative, and is {}", run.seed));
  if (run.total.empty()) recipe.fail_missing("total", "for example total = \"60 epochs\"");
  if (run.dtype != "f32" && run.dtype != "bf16") {
    recipe.fail("dtype", fmt::format("is \"{}\"", run.dtype), config::suggest_value(run.dtype, {"f32", "bf16"}));
  }
  out.compute = parse_dtype(run.dtype);
  if (const auto level = run.optimization_level; level && (*level < 0 || *level > 3))
    recipe.fail("optimization_level", fmt::format("is {}", *level), "0 to 3");
}

void read_training_data(const Section& section, Recipe& out) {
  TrainDataOptions options;
  out.data = open_training_data(section, options);
  out.batch = options.batch;
  if (out.batch < 1) {
    if (!section.has("batch")) section.fail_missing("batch", "for example batch = 128");
    section.fail("batch", fmt::format("must be at least 1, and is {}", out.batch));
  }
  out.examples_per_epoch = out.data.size();
  out.class_names = out.data.source().class_names();
  if (out.batch > out.examples_per_epoch) {
    section.fail("batch", fmt::format("is {}, and `{}` has {} images", out.batch, out.data.name(), out.examples_per_epoch),
                 fmt::format("take a batch of at most {}", out.examples_per_epoch));
  }
  if (!out.data.pp().scales_values()) {
    log_warning("`data.pp` ends without value_range or normalise: the model sees numbers from 0 to 255");
  }
}

void read_model(const Section& section, const Section& data_section, Recipe& out) {
  models::InputShape in{out.data.pp().height(), out.data.pp().width(), out.data.pp().pixel_scale().channels(),
                        static_cast<int64_t>(out.class_names.size())};
  if (const auto& tokens = out.objective->inputs().tokens; !tokens.empty()) {
    in.tokens = tokens[0].length, in.vocabulary = tokens[0].vocabulary;
  }
  out.model = models::make_model(section, in);
  check_input(data_section, *out.model, out.data);
  out.objective->check(*out.model, section);
  out.specs = models::parameters(*out.model);
}

void read_objective(Section section, const Section& data_section, Recipe& out) {
  out.objective = objectives::make_objective(std::move(section), out.data.inputs());
  if (out.data.mixup && !out.objective->inputs().labels) {
    data_section.fail("mixup", "mixes labels, and the objective reads none", "leave it out");
  }
}

void read_teacher(const Section& section, Recipe& out) {
  const std::optional<objectives::TeacherSource> source = out.objective->teacher();
  if (!source) return;
  out.teacher =
      lay_out(load_teacher(*source, section, out.model->input(), out.data.pp().pixel_scale()), out.mesh, out.sharding);
}

void read_optimizer(const Section& section, Recipe& out, const optim::RunLength& length) {
  out.optimizer = std::make_unique<optim::Optimizer>(section, length);
  optim::Params params;
  const std::vector<int64_t> layers = models::parameter_layers(*out.model, out.specs);
  for (const nn::ParamSpec& spec : out.specs) {
    params.push_back({spec.name, spec.type, spec.stacked, spec.trained});
    if (!layers.empty()) params.back().layer = layers[params.size() - 1];
  }
  out.optimizer->bind(std::move(params));
}

void read_checkpoint(Section section, Recipe& out, const optim::RunLength& length) {
  section.bind(out.checkpoint);
  section.check_range("keep", out.checkpoint.keep, 1, kMaxKept);
  section.check_range("keep_best", out.checkpoint.keep_best, 1, kMaxKept);
  out.checkpoint_every = steps_of(section, "every", out.checkpoint.every, length);
  if (out.checkpoint.keep_every) out.keep_every = steps_of(section, "keep_every", *out.checkpoint.keep_every, length);
}

void read_guard(Section section, Recipe& out) {
  GuardOptions& guard = out.guard.emplace();
  section.bind(guard);
  section.check_range("max_skips", guard.max_skips, 1, INT32_MAX);
  section.check_range("window", guard.window, 1, 1'000'000);
  if (guard.spike && !(*guard.spike > 1 && std::isfinite(*guard.spike)))
    section.fail("spike", fmt::format("must be above 1, and is {}", *guard.spike),
                 "for example 5: gradients five times as large as their average are left out");
}

optim::RunLength read_length(const Section& recipe, Recipe& out) {
  const config::Duration total = config::parse_duration(out.run.total, recipe.place("total"));
  if (total.unit == config::DurationUnit::kPercent) {
    recipe.fail("total", "can't be a percentage: it is what percentages are of", "for example \"60 epochs\"");
  }
  out.total = config::to_steps(total, out.batch, out.examples_per_epoch, 0, recipe.place("total"));
  if (out.total < 1) recipe.fail("total", "must be above 0", "for example \"60 epochs\"");
  if (out.total > INT32_MAX) recipe.fail("total", fmt::format("is {} steps; the counter ends at {}", out.total, INT32_MAX));
  return {out.total, out.batch, out.examples_per_epoch};
}

// That somebody looks at what training goes without.
void check_held_out(const Section& data_section, const Recipe& out) {
  const auto& fold = out.data.options.fold;
  const std::string& source = out.data.options.source;
  if (!fold || std::ranges::any_of(out.evals, [&](const EvalPlan& plan) { return plan.sets[0].data.options.fold == fold; }))
    return;
  data_section.fail("fold", fmt::format("holds fold {} out, and no evaluator has it", *fold),
                    fmt::format("an evaluator with the source of training has it: 'eval.{}.data.source={}'",
                                out.evals.empty() ? "val" : out.evals[0].name, source.empty() ? "…" : source));
}

}  // namespace

int64_t steps_of(const Section& section, const char* key, const std::string& text, const optim::RunLength& length) {
  const config::Duration duration = config::parse_duration(text, section.place(key));
  return config::to_steps(duration, length.batch, length.examples_per_epoch, length.total_steps, section.place(key));
}

void check_batch(int64_t batch, int64_t accumulate, const mesh::Mesh& mesh, const std::string& where,
                 const ProcessGroup& processes) {
  const int64_t parts = mesh::batch_parts(mesh) * accumulate * processes.meshes();
  if (batch % parts == 0) return;
  const int64_t below = batch / parts * parts;
  std::string each = accumulate == 1 ? "" : fmt::format(" times {} micro-batches", accumulate);
  if (processes.meshes() > 1) each += fmt::format(", of {} processes", processes.meshes());
  throw usage_error(fmt::format("a batch of {} can't be divided over the {} parts of mesh `{}`{}", batch,
                                mesh::batch_parts(mesh), mesh.text(), each),
                    where,
                    below > 0 ? fmt::format("take {} or {}, or another mesh", below, below + parts)
                              : fmt::format("take {}, or a smaller mesh", parts));
}

void check_input(const Section& section, const models::Model& model, const Data& opened, bool crops) {
  const models::InputShape& in = model.input();
  const int64_t channels = opened.pp().pixel_scale().channels();
  if (in.channels != channels) {
    section.fail(
        "pp",
        fmt::format("makes images of {} channel{}, and the model takes {}", channels, channels == 1 ? "" : "s", in.channels),
        "`grayscale` makes one channel; training's data.pp says how many the model takes");
  }
  const int64_t height = opened.pp().height(), width = opened.pp().width();
  const bool same = in.height == height && in.width == width;
  if (crops && !same && height >= in.height && width >= in.width) return;
  if (crops) {
    section.fail("pp",
                 fmt::format("makes images of {} x {}, and tta cuts crops of {} x {} out of larger ones", height, width,
                             in.height, in.width),
                 "make the last crop or resize larger than the model's images");
  }
  if (same) return;
  section.fail("pp", fmt::format("makes images of {} x {}, and the model takes {} x {}", height, width, in.height, in.width),
               "make both the same: the size of the last crop or resize, or model.image_size");
}

Recipe read_recipe(Section recipe, int64_t devices, const ProcessGroup& processes) {
  Recipe out;
  out.processes = processes;
  take_weights_chains(recipe);
  read_run(recipe, out);
  read_mesh(recipe, devices, out);
  Section checkpoint = recipe.section("checkpoint"), data_section = recipe.section("data");
  const Section monitor = recipe.section("monitor");
  read_training_data(data_section, out);
  Section model = recipe.section("model");
  const Section objective = recipe.section("objective");
  read_objective(objective, data_section, out);
  read_model(model, data_section, out);
  read_teacher(objective, out);
  const optim::RunLength length = read_length(recipe, out);
  if (out.run.accumulate < 1 || out.batch % out.run.accumulate != 0) {
    recipe.fail("accumulate", fmt::format("must divide data.batch, which is {}, and is {}", out.batch, out.run.accumulate));
  }
  check_batch(out.batch, out.run.accumulate, out.mesh, data_section.place("batch"), processes);
  const int64_t rows = out.program_rows() / out.run.accumulate;
  if (const int64_t parts = out.model->batch_parts(); rows % parts != 0) {
    data_section.fail("batch", fmt::format("makes {} rows, and model.norm_splits cuts them into {} equal parts", rows, parts));
  }
  read_optimizer(recipe.section("optimizer"), out, length);
  read_checkpoint(checkpoint, out, length);
  out.log_every = steps_of(recipe, "log", out.run.log, length);
  read_monitor(monitor, length, out);
  if (recipe.has("guard")) read_guard(recipe.section("guard"), out);
  if (recipe.has("average")) out.average.emplace(recipe.section("average"), length);
  if (recipe.has("model_init")) {
    Section section = recipe.section("model_init");
    section.bind(out.model_init.emplace());
    if (out.model_init->from.empty()) section.fail_missing("from");
    if (out.run.resume) {
      recipe.fail("resume", "and `model_init` both say which weights come first",
                  "keep `resume` to go on from a state with its moments and step, `model_init` to begin with weights alone");
    }
  }
  EvalSetting setting{.model = out.model.get(),
                      .classes = out.class_names,
                      .multi_label = out.data.source().multi_label(),
                      .batch = out.batch,
                      .length = length,
                      .mesh = out.mesh,
                      .processes = processes,
                      .held_out = held_out(recipe.section("data")),
                      .objective = [&] { return out.objective; }};
  set_captions(*out.objective, out.data.pp(), setting);
  Section evals = recipe.section("eval");
  for (const std::string& name : evals.keys()) {
    check_evaluator_name(evals, name);
    out.evals.push_back(read_eval(name, evals.section(name), setting));
  }
  read_scores(recipe, checkpoint, length, out);
  check_held_out(data_section, out);
  recipe.finish();
  out.text = recipe.dump();
  return out;
}

bool due(int64_t step, int64_t every, int64_t total) {
  if (step == total) return true;
  if (every < 1 || step % every != 0) return false;
  return static_cast<double>(total - step) >= 0.25 * static_cast<double>(every);
}

bool Recipe::saves_at(int64_t step) const {
  if (step == 0) return false;
  return due(step, checkpoint_every, total) || (keep_every > 0 && step % keep_every == 0);
}

bool due(const EvalPlan& plan, int64_t step, const RunOptions& run, int64_t total) {
  if (step == 0) return run.eval_at_start && !plan.options.skip_first;
  // Without an evaluation at the end there is none that those just before it would be too near to.
  return plan.options.at_end ? due(step, plan.every, total) : step % plan.every == 0;
}

}  // namespace tessera::recipe
