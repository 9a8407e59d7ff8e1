#include "recipe/recipe.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/call.h"
#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "data/formats/parquet.h"
#include "data/relabelled.h"
#include "mesh/mesh.h"
#include "monitor/sink.h"
#include "recipe/teacher.h"

namespace tessera::recipe {
namespace {

using config::Section;

void check_input(const Section& section, const models::Model& model, const Data& data) {
  const models::InputShape& in = model.input();
  const int64_t channels = data.pp().pixel_scale().channels();
  if (in.channels != channels) {
    section.fail(
        "pp",
        fmt::format("makes images of {} channel{}, and the model takes {}", channels, channels == 1 ? "" : "s", in.channels),
        "`grayscale` makes one channel; training's data.pp says how many the model takes");
  }
  if (in.height == data.pp().height() && in.width == data.pp().width()) return;
  section.fail("pp",
               fmt::format("makes images of {} x {}, and the model takes {} x {}", data.pp().height(), data.pp().width(),
                           in.height, in.width),
               "make both the same: the size of the last crop or resize, or model.image_size");
}

std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<ptrdiff_t>(std::min<size_t>(names.size(), 5)));
  return one_line(join(first, ", ")) + (names.size() > 5 ? ", …" : "");
}

// Labels are places in the list of classes, so that the lists must be the same.
void check_classes(const Section& section, const std::vector<std::string>& wanted, const std::vector<std::string>& found,
                   const std::string& whose) {
  if (wanted == found) return;
  const auto lacking = [](const std::vector<std::string>& names, const std::vector<std::string>& all) {
    return std::ranges::find_if(names, [&](const std::string& name) { return std::ranges::find(all, name) == all.end(); });
  };
  const std::string lists =
      fmt::format("{} classes ({}), and {} has {} ({})", found.size(), listed(found), whose, wanted.size(), listed(wanted));
  if (const auto missing = lacking(wanted, found); missing != wanted.end()) {
    section.fail("source", fmt::format("has no class `{}`: {}", one_line(*missing), lists),
                 fmt::format("every class of {} needs its folder here, even an empty class would shift the labels", whose));
  }
  section.fail("source", "has " + lists, fmt::format("take out the folders that {} does not know", whose));
}

// Makes the labels of an evaluator's data training's, by the names of the classes; classes without images here are as good as
// any. Words that training does not know are an Error, unless classes are compared by number.
void take_training_classes(const Section& section, const EvalSetting& setting, Data& data) {
  auto& source = data.sets.front().source;
  if (auto same = tessera::data::relabelled(source, setting.classes)) {
    source = std::move(same);
    return;
  }
  if (setting.classes_by_number) return;
  for (const std::string& name : source->class_names()) {
    if (std::ranges::find(setting.classes, name) != setting.classes.end()) continue;
    section.fail("source",
                 fmt::format("has a class that training does not: `{}`; {} classes here ({}), {} in training ({})",
                             one_line(name), source->class_names().size(), listed(source->class_names()),
                             setting.classes.size(), listed(setting.classes)),
                 "take out its images, or give it its name in training");
  }
}

int64_t steps_of(const Section& section, const char* key, const std::string& text, const optim::RunLength& length) {
  const config::Duration duration = config::parse_duration(text, section.place(key));
  return config::to_steps(duration, length.batch, length.examples_per_epoch, length.total_steps, section.place(key));
}

void read_mesh(Section& recipe, int64_t devices, Recipe& out) {
  out.mesh = mesh::parse_mesh(out.run.mesh, devices, recipe.place("mesh"));
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
    recipe.fail("dtype", fmt::format("is \"{}\"", run.dtype), "f32 or bf16");
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

void read_model(const Section& section, const Section& data, Recipe& out) {
  models::InputShape in{out.data.pp().height(), out.data.pp().width(), out.data.pp().pixel_scale().channels(),
                        static_cast<int64_t>(out.class_names.size())};
  if (const auto& tokens = out.objective->inputs().tokens; !tokens.empty()) {
    in.tokens = tokens[0].length, in.vocabulary = tokens[0].vocabulary;
  }
  out.model = models::make_model(section, in);
  check_input(data, *out.model, out.data);
  out.objective->check(*out.model, section);
  out.specs = models::parameters(*out.model);
}

void read_objective(Section section, const Section& data, Recipe& out) {
  out.objective = objectives::make_objective(std::move(section), out.data.inputs());
  if (out.data.mixup && !out.objective->inputs().labels) {
    data.fail("mixup", "mixes labels, and the objective reads none", "leave it out");
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
  if (out.checkpoint.keep < 1) section.fail("keep", fmt::format("must be at least 1, and is {}", out.checkpoint.keep));
  if (out.checkpoint.keep_best < 1)
    section.fail("keep_best", fmt::format("must be at least 1, and is {}", out.checkpoint.keep_best),
                 "checkpoint.best = \"none\" keeps none");
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
  if (out.total < 1) recipe.fail("total", "must be above 0");
  if (out.total > INT32_MAX) recipe.fail("total", fmt::format("is {} steps; the counter ends at {}", out.total, INT32_MAX));
  return {out.total, out.batch, out.examples_per_epoch};
}

}  // namespace

void set_captions(const objectives::Objective& objective, const tessera::data::Pp& pp, EvalSetting& setting) {
  if (objective.inputs().tokens.empty()) return;
  setting.captions = objective.inputs().tokens[0];
  for (const tessera::data::TokenField& field : pp.token_fields()) {
    if (field.name != setting.captions->name) continue;
    setting.encode = [field](const std::string& text) {
      std::vector<int32_t> ids(static_cast<size_t>(field.length));
      field.encoder->encode(text, ids.data());
      return ids;
    };
  }
}

namespace {

void check_predictions(const Section& section, const EvalOptions& options) {
  const char* key = "predictions_format";
  if (options.predictions_format == "jsonl") return;
  if (options.predictions_format != "parquet") {
    section.fail(key, fmt::format("is \"{}\"", options.predictions_format), "jsonl or parquet");
  }
  if (!options.predictions) return;
  try {
    tessera::data::parquet_api();
  } catch (const Error& error) {
    throw data_error(error.message(), section.place(key), error.help());
  }
}

void check_multi_label(const Section& section, const EvalSetting& setting, const Data& data) {
  const bool several = data.source().multi_label();
  if (setting.multi_label.value_or(several) == several) return;
  section.fail("source",
               several ? "has several labels an image, and training's data has one"
                       : "has one label an image, and training's data has any number",
               several ? "label=… here, or labels=… in data.source" : "labels=… here, as in data.source");
}

// Here where the source knows, else when the examples have been read.
void check_class_sizes(const tessera::data::Source& source, int64_t least, const std::string& where) {
  const auto sizes = least > 0 ? source.class_sizes() : std::nullopt;
  if (!sizes) return;
  const auto fewest = std::ranges::min_element(*sizes);
  if (fewest == sizes->end() || *fewest >= least) return;
  const std::string& name = source.class_names()[static_cast<size_t>(fewest - sizes->begin())];
  throw data_error(fmt::format("the class `{}` has {} examples, too few for {} shots", name, *fewest, least), where,
                   "ask for fewer shots, or give a larger training set");
}

// Rows without an image are padded, so that any batch will do: rounded up to what the mesh can cut.
int64_t eval_batch(const Section& section, const EvalPlan& plan, const EvalSetting& setting) {
  int64_t largest = 0;
  for (const EvalSet& set : plan.sets) largest = std::max(largest, set.size());
  const int64_t parts = mesh::batch_parts(setting.mesh) * setting.processes, most = std::min(setting.batch, largest);
  const int64_t batch = plan.options.batch.value_or((most + parts - 1) / parts * parts);
  if (batch < 1) section.fail("batch", fmt::format("must be at least 1, and is {}", batch));
  check_batch(batch, 1, setting.mesh, section.place("batch"), setting.processes);
  return batch;
}

}  // namespace

EvalPlan read_eval(const std::string& name, Section section, const EvalSetting& setting) {
  EvalPlan plan;
  plan.name = name;
  Section data = section.section("data");
  plan.sets.push_back({open_evaluation_data(data, setting.held_out)});
  Data& own = plan.sets[0].data;
  plan.options.type = evaluators::usual_evaluator(own.inputs());
  section.bind_part(plan.options);
  if (setting.predictions) plan.options.predictions = true;
  check_predictions(section, plan.options);
  check_input(data, *setting.model, own);
  const auto id = [source = own.sets.front().source](int64_t sample) { return source->id(sample); };
  const auto make = [&] {
    plan.evaluator =
        evaluators::make_evaluator(section, {own.inputs(), own.source().class_names(), setting.captions, setting.encode,
                                             own.source().size(), id, setting.objective, plan.options.predictions});
  };
  make();
  plan.evaluator->check(*setting.model, section);
  if (plan.evaluator->inputs(0).labels) {
    if (own.source().class_names().empty())
      data.fail("source", fmt::format("has no labels, which {} needs", plan.options.type));
    // A classifier's labels are training's.
    const bool classifies = setting.model->classifier() != nullptr;
    if (classifies) check_multi_label(data, setting, own);
    if (classifies && !setting.classes.empty() && own.source().class_names() != setting.classes) {
      take_training_classes(data, setting, own);
      make();
    }
  }
  const std::vector<std::string> classes = own.source().class_names();
  for (const std::string& key : plan.evaluator->further_sets()) {
    Section further = section.section(key);
    plan.sets.push_back({open_data(further, tessera::data::PpUse::kEval)});
    check_input(further, *setting.model, plan.sets.back().data);
    const auto& source = plan.sets.back().data.source();
    check_classes(further, classes, source.class_names(), data.path());
    check_class_sizes(source, plan.evaluator->least_of_a_class(plan.sets.size() - 1), section.place(key));
  }
  if (const auto texts = static_cast<int64_t>(plan.evaluator->texts().size()); texts > 0) {
    const int64_t length = plan.evaluator->inputs(plan.sets.size()).tokens.at(0).length;
    plan.sets.emplace_back().texts = texts / length;
  }
  const int64_t batch = eval_batch(section, plan, setting);
  for (EvalSet& set : plan.sets) {
    set.batch = batch;
    set.processes = setting.processes;
    if (set.texts == 0) set.data.loader(batch, 0);  // so that what takes too much memory is known at once
  }
  plan.every = steps_of(section, "every", plan.options.every, setting.length);
  return plan;
}

void check_batch(int64_t batch, int64_t accumulate, const mesh::Mesh& mesh, const std::string& where, int64_t processes) {
  const int64_t parts = mesh::batch_parts(mesh) * accumulate * processes;
  if (batch % parts == 0) return;
  const int64_t below = batch / parts * parts;
  std::string each = accumulate == 1 ? "" : fmt::format(" times {} micro-batches", accumulate);
  if (processes > 1) each += fmt::format(", of {} processes", processes);
  throw usage_error(fmt::format("a batch of {} can't be divided over the {} parts of mesh `{}`{}", batch,
                                mesh::batch_parts(mesh), mesh.text(), each),
                    where,
                    below > 0 ? fmt::format("take {} or {}, or another mesh", below, below + parts)
                              : fmt::format("take {}, or a smaller mesh", parts));
}

namespace {

// Of the state, what stays whole on every device though the recipe splits the rest: above this share it is worth a word.
constexpr double kWholeShare = 0.1;

// Large arrays that could not be cut, because no dimension is divisible. (The optimizer's: presets split those of parameters
// too.)
void warn_about_whole_arrays(const state::StateLayout& layout) {
  const int64_t fsdp = layout.mesh.size("fsdp");
  if (fsdp == 1) return;
  const state::StateEntry* largest = nullptr;
  double whole = 0, all = 0;
  for (const state::StateEntry& entry : layout.entries) {
    const auto bytes = static_cast<double>(byte_count(entry.type));
    all += bytes;
    if (!entry.name.starts_with("opt/") || !entry.spec.replicated()) continue;
    whole += bytes;
    if (!largest || byte_count(entry.type) > byte_count(largest->type)) largest = &entry;
  }
  if (!largest || whole < kWholeShare * all) return;
  const Dims& dims = largest->type.dims;
  const int64_t widest = *std::max_element(dims.begin() + (largest->stacked() ? 1 : 0), dims.end());
  std::vector<std::string> sizes;
  for (int64_t size = 2; size <= fsdp; ++size) {
    if (fsdp % size == 0 && widest % size == 0) sizes.push_back(std::to_string(size));
  }
  log_warning(
      fmt::format("{} of optimizer state stay whole on every device: `fsdp={}` divides no dimension of `{}` {}{}",
                  human_bytes(whole), fsdp, largest->name, to_string(dims),
                  sizes.empty() ? "" : fmt::format("; fsdp sizes that do, the rest as replica: {}", join(sizes, ", "))));
}

}  // namespace

state::StateLayout recipe_layout(const Recipe& recipe) {
  state::StateLayout layout =
      state::state_layout(recipe.specs, *recipe.optimizer, recipe.average.has_value(), recipe.guard.has_value());
  if (recipe.mesh.devices() == 1) return layout;
  const mesh::ShardingRules rules(recipe.sharding, "sharding");
  lay_out(layout, recipe.mesh, recipe.sharding);
  std::vector<std::string> names;
  for (const state::StateEntry& entry : layout.entries) names.push_back(entry.name);
  for (const std::string& message : rules.unmatched(names)) log_warning("`sharding.rules`: " + message);
  if (recipe.sharding.preset != "replicated") warn_about_whole_arrays(layout);
  return layout;
}

std::string averaged_name(const std::string& evaluator) { return evaluator + "_ema"; }

namespace {

constexpr const char* kTrainingLoss = "training_loss";

void read_best(const Section& checkpoint, const std::vector<BestMetric>& scores, Recipe& out) {
  const std::string& name = out.checkpoint.best;
  if (name == "none") return;
  std::vector<std::string> names{"none", kTrainingLoss};
  for (const BestMetric& score : scores) names.push_back(score.name);
  const auto found = std::ranges::find(scores, name, &BestMetric::name);
  if (found != scores.end()) {
    out.best = *found;
  } else if (name == kTrainingLoss) {
    out.best = BestMetric{name};
  } else {
    checkpoint.fail("best", fmt::format("is \"{}\", which is no score of an evaluator of this recipe", name),
                    suggest_name(name, names));
  }
}

// "val/loss, patience=5 epochs, min_delta=0.001"
void read_early_stop(const Section& recipe, const std::vector<BestMetric>& scores, const optim::RunLength& length,
                     Recipe& out) {
  const std::string& text = out.run.early_stop;
  if (text.empty() || text == "none") return;
  const std::string place = recipe.place("early_stop");
  const Call written = parse_call("early_stop(" + text + ")", place);
  CallReader call(written, place);
  EarlyStop stop;
  const std::string metric = call.text("metric");
  stop.text = call.text("patience");
  stop.min_delta = call.number("min_delta", 0);
  call.finish();
  const auto found = std::ranges::find(scores, metric, &BestMetric::name);
  if (found == scores.end()) {
    std::vector<std::string> names;
    for (const BestMetric& score : scores) names.push_back(score.name);
    recipe.fail("early_stop", fmt::format("waits for \"{}\", which is no score of an evaluator of this recipe", metric),
                names.empty() ? "add one: [eval.val]" : suggest_name(metric, names));
  }
  stop.metric = *found;
  const auto evaluations = parse_number(stop.text);
  stop.evaluations = evaluations.has_value();
  if (evaluations) {
    const bool whole = *evaluations >= 1 && *evaluations <= INT32_MAX && *evaluations == std::floor(*evaluations);
    stop.patience = whole ? static_cast<int64_t>(*evaluations) : 0;
    stop.text += stop.patience == 1 ? " evaluation" : " evaluations";
  } else {
    stop.patience = config::to_steps(config::parse_duration(stop.text, place), length.batch, length.examples_per_epoch,
                                     length.total_steps, place);
  }
  if (stop.patience < 1) {
    recipe.fail("early_stop", fmt::format("has a patience of \"{}\", which must be at least 1 step or evaluation", stop.text),
                "patience=5 epochs, patience=500 steps or patience=3, which is evaluations");
  }
  if (!(stop.min_delta >= 0))
    recipe.fail("early_stop", fmt::format("has a min_delta of {}, which must not be negative", stop.min_delta));
  out.early_stop = stop;
}

// That averages' scores have names of their own, and that a plateau's metric and that of the best checkpoint are given.
void check_evals(const Section& recipe, const Section& checkpoint, const optim::RunLength& length, Recipe& out) {
  std::vector<std::string> metrics;
  std::vector<BestMetric> scores;
  const auto offer = [&](const std::string& name, const EvalPlan& plan) {
    for (const evaluators::ScoreKind& score : plan.evaluator->score_kinds()) {
      metrics.push_back(name + "/" + score.name);
      scores.push_back({metrics.back(), score.share});
    }
  };
  for (const EvalPlan& plan : out.evals) {
    offer(plan.name, plan);
    if (!out.average) continue;
    offer(averaged_name(plan.name), plan);
    for (const EvalPlan& other : out.evals) {
      if (other.name != averaged_name(plan.name)) continue;
      recipe.fail("eval",
                  fmt::format("has `{}`, which is what scores of `{}` with averaged weights are called", other.name, plan.name),
                  "give it another name");
    }
  }
  read_best(checkpoint, scores, out);
  read_early_stop(recipe, scores, length, out);
  const auto& plateau = out.optimizer->schedule().plateau();
  if (!plateau || std::find(metrics.begin(), metrics.end(), plateau->metric) != metrics.end()) return;
  throw usage_error(fmt::format("the plateau's metric `{}` is none that an evaluator of this recipe gives", plateau->metric),
                    recipe.place("optimizer.lr"),
                    metrics.empty() ? "add one: [eval.val]" : suggest_name(plateau->metric, metrics));
}

// That somebody looks at what training goes without.
void check_held_out(const Section& data, const Recipe& out) {
  const auto& fold = out.data.options.fold;
  if (!fold || std::ranges::any_of(out.evals, [&](const EvalPlan& plan) { return plan.sets[0].data.options.fold == fold; }))
    return;
  data.fail("fold", fmt::format("holds fold {} out, and no evaluator has it", *fold),
            "an evaluator without a source, or with that of data.source, has it: eval.val.data.source=\"…\"");
}

}  // namespace

std::vector<BestMetric> scores_of(const Recipe& recipe) {
  std::vector<BestMetric> scores;
  const auto add = [&](const std::string& name, const EvalPlan& plan) {
    std::vector<evaluators::ScoreKind> kinds = plan.evaluator->score_kinds();
    std::stable_partition(kinds.begin(), kinds.end(), [](const evaluators::ScoreKind& kind) { return kind.share; });
    for (const evaluators::ScoreKind& kind : kinds) scores.push_back({name + "/" + kind.name, kind.share});
  };
  for (const EvalPlan& plan : recipe.evals) {
    add(plan.name, plan);
    if (recipe.average) add(averaged_name(plan.name), plan);
  }
  scores.push_back({kTrainingLoss});
  return scores;
}

bool BestMetric::of_training() const { return name == kTrainingLoss; }

namespace {

// "steps 2-6", "step 2", "auto", "none".
ProfilePlan read_profile(const Section& section, const std::string& text) {
  ProfilePlan plan;
  if (text == "auto") return plan;
  plan.slow_steps = text != "none";
  if (text == "none") return plan;
  static const RE2 pattern(R"(\s*steps?\s+(\d{1,15})(?:\s*-\s*(\d{1,15}))?\s*)");
  std::string last;
  if (!RE2::FullMatch(text, pattern, &plan.first, &last)) {
    section.fail("profile", fmt::format("is \"{}\"", text), R"(write "steps 2-6", "step 2", "auto" or "none")");
  }
  plan.last = last.empty() ? plan.first : std::stoll(last);
  if (plan.first < 1 || plan.last < plan.first) {
    section.fail("profile", fmt::format("is \"{}\"", text), "steps are counted from 1, and the first comes first");
  }
  return plan;
}

void read_monitor(Section section, const optim::RunLength& length, Recipe& out) {
  section.bind(out.monitor);
  section.check_range("images", out.monitor.images, 0, 1000);
  section.check_range("worst", out.monitor.worst, 0, 32);
  section.check_range("projector", out.monitor.projector, 0, 10'000);
  if (out.monitor.histograms != "none") out.histograms_every = steps_of(section, "histograms", out.monitor.histograms, length);
  out.profile = read_profile(section, out.monitor.profile);
  std::set<std::string> seen;
  for (const std::string& name : out.monitor.sinks) {
    if (!monitor::find_sink(name))
      section.fail("sinks", fmt::format("names \"{}\", which is no sink", name),
                   fmt::format("known: {}", join(monitor::sink_names(), ", ")));
    if (!seen.insert(name).second) section.fail("sinks", fmt::format("names \"{}\" twice", name));
  }
}

}  // namespace

Recipe read_recipe(Section recipe, int64_t devices, int64_t processes) {
  Recipe out;
  read_run(recipe, out);
  read_mesh(recipe, devices, out);
  Section checkpoint = recipe.section("checkpoint"), data = recipe.section("data");
  const Section monitor = recipe.section("monitor");
  read_training_data(data, out);
  Section model = recipe.section("model");
  const Section objective = recipe.section("objective");
  read_objective(objective, data, out);
  read_model(model, data, out);
  read_teacher(objective, out);
  const optim::RunLength length = read_length(recipe, out);
  if (out.run.accumulate < 1 || out.batch % out.run.accumulate != 0) {
    recipe.fail("accumulate", fmt::format("must divide data.batch, which is {}, and is {}", out.batch, out.run.accumulate));
  }
  check_batch(out.batch, out.run.accumulate, out.mesh, data.place("batch"), processes);
  out.processes = processes;
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
    out.evals.push_back(read_eval(name, evals.section(name), setting));
  }
  check_evals(recipe, checkpoint, length, out);
  check_held_out(data, out);
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
