#include "inference/use_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "inference/row_reader.h"
#include "inference/training_data.h"
#include "train/process/processes.h"
#include "train/step/compile.h"
#include "train/step/fixed_arguments.h"
#include "train/step/hardware.h"
#include "train/step/step.h"
#include "train/step/trace.h"

namespace tessera::inference {
namespace {

// Images that `predict` looks at at once. On a CPU they are few for each core, so that what a layer makes stays in the last
// cache: on two cores a ResNet-50 or a ViT-S/16 takes 2 to 3 % less time with 16 than with 32. Elsewhere they are enough for the
// device, and for many threads that decode; their number is the same on every host, since sums may depend on it there.
size_t predict_batch(const pjrt::Client& client) {
  constexpr int kBatch = 32, kForEachCore = 8, kAtLeast = 16, kOfAccelerators = 128;
  if (client.platform_name() != "cpu") return kOfAccelerators;
  return static_cast<size_t>(std::max(kAtLeast, kForEachCore * thread_count(0, kBatch / kForEachCore)));
}

// A batch that the device works on.
struct InFlight {
  std::vector<Prediction> rows;
  std::vector<pjrt::Buffer> logits;
};

std::vector<Prediction> with_errors(std::span<const std::string> paths, const std::vector<std::string>& errors) {
  std::vector<Prediction> rows;
  for (size_t i = 0; i < paths.size(); ++i) rows.push_back({paths[i], {}, errors[i]});
  return rows;
}

void deliver(InFlight& batch, int64_t classes, const std::function<void(Prediction)>& take) {
  if (batch.rows.empty()) return;
  const std::vector<float> all = batch.logits[0].to_host<float>();
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    if (batch.rows[i].error.empty()) {
      const auto begin = all.begin() + static_cast<ptrdiff_t>(i) * classes;
      batch.rows[i].logits.assign(begin, begin + classes);
    }
    take(std::move(batch.rows[i]));
  }
  batch.rows.clear();
}

// Labels are places in the list of classes. timm's files name classes in words of their own, so that there only their number
// must fit.
void check_classes(const recipe::EvalPlan& plan, const state::LoadedModel& model) {
  const auto& names = plan.sets[0].data.source().class_names();
  if (static_cast<int64_t>(names.size()) != model.model->input().classes) {
    throw usage_error(fmt::format("`{}` has {} classes, and the model has {}", plan.sets[0].data.source().name(), names.size(),
                                  model.model->input().classes),
                      plan.sets[0].data.where, "evaluate on data of the same classes");
  }
  for (size_t i = 0; i < std::min(names.size(), model.class_names.size()); ++i) {
    if (names[i] == model.class_names[i]) continue;
    log_warning(fmt::format("class {} is `{}` in the data and `{}` in the weights; they are compared by number", i,
                            one_line(names[i]), one_line(model.class_names[i])));
    return;
  }
}

// The parameters as the recipe lays them over the devices.
state::StateLayout spread(state::StateLayout layout, config::Section& recipe, int64_t devices) {
  recipe::RunOptions run;
  recipe.bind_part(run);
  mesh::ShardingOptions sharding;
  recipe.section("sharding").bind_part(sharding);
  if (devices > 1) state::lay_out(layout, mesh::parse_mesh(run.mesh, devices, recipe.place("mesh")), sharding);
  return layout;
}

// What training minimises and the chain that it reads, without its sources. Made once, when first asked for: most evaluators
// do without, and a chain may load a tokenizer.
class TrainingPart {
 public:
  TrainingPart(config::Section& recipe, std::string pp, const state::LoadedModel& model)
      : section_(recipe.section("objective")),
        pp_(std::move(pp)),
        where_(recipe.section("data").place("pp")),
        inputs_{.classes = model.model->input().classes, .multi_label = model.multi_label, .class_names = model.class_names} {}

  const data::Pp& chain() {
    if (!chain_) chain_.emplace(pp_, data::PpUse::kTrain, where_);
    return *chain_;
  }
  std::shared_ptr<const objectives::Objective> objective() {
    if (objective_) return objective_;
    objectives::DataInputs inputs = inputs_;
    if (!pp_.empty()) {
      inputs.tokens = recipe::token_inputs(chain());
      inputs.views = chain().views();
    }
    return objective_ = objectives::make_objective(section_, inputs);
  }

 private:
  config::Section section_;
  std::string pp_, where_;
  objectives::DataInputs inputs_;
  std::optional<data::Pp> chain_;
  std::shared_ptr<const objectives::Objective> objective_;
};

void read_objective(config::Section& recipe, const std::string& pp, const state::LoadedModel& model,
                    recipe::EvalSetting& setting) {
  const auto training = std::make_shared<TrainingPart>(recipe, pp, model);
  setting.objective = [training] { return training->objective(); };
  if (setting.model->input().tokens > 0) recipe::set_captions(*training->objective(), training->chain(), setting);
}

// Evaluators whose programs are the same share one.
class EvalRunner {
 public:
  EvalRunner(std::shared_ptr<pjrt::Client> client, const state::LoadedModel& model, DType compute,
             const state::StateLayout& layout, const train::DeviceOptions& device)
      : client_(std::move(client)),
        model_(model),
        compute_(compute),
        layout_(layout),
        device_(device),
        hardware_(train::hardware_of(*client_, device.cache)),
        params_(state::to_device(layout, model.params, *client_)) {}

  train::Evaluation run(const recipe::EvalPlan& plan) {
    train::EvalPrograms programs;
    for (size_t set = 0; set < plan.sets.size(); ++set) {
      const recipe::EvalSet& of = plan.sets[set];
      programs.push_back(compiled(train::eval_program(*model_.model, *plan.evaluator, set, layout_,
                                                      {.batch = of.batch,
                                                       .image_size = of.image_size(),
                                                       .pixels = of.pixels(),
                                                       .compute = compute_,
                                                       .hardware = hardware_}),
                                  train::image_batch(*model_.model, of.batch, of.image_size())));
    }
    return *train::EvaluationRunner(client_, programs, layout_, plan, alone_).run(params_);
  }

 private:
  std::shared_ptr<const train::Compiled> compiled(const train::Program& program, const TensorType& images) {
    std::shared_ptr<const train::Compiled>& compiled = by_text_[program.prepare + program.text];
    if (compiled) return compiled;
    return compiled = std::make_shared<const train::Compiled>(
               train::compile(*client_, program, device_.cache, train::arguments_of(layout_, layout_.params, images)));
  }

  std::shared_ptr<pjrt::Client> client_;
  const state::LoadedModel& model_;
  DType compute_;
  const state::StateLayout& layout_;
  const train::DeviceOptions& device_;
  train::Hardware hardware_;
  state::DeviceArrays params_;
  train::Processes alone_{{}};
  std::map<std::string, std::shared_ptr<const train::Compiled>> by_text_;
};

}  // namespace

void predict(const state::LoadedModel& model, const std::string& pp_text, const std::vector<std::string>& paths,
             const train::DeviceOptions& device, const std::function<void(Prediction)>& take) {
  const data::Pp pp(pp_text, data::PpUse::kEval, "preprocessing");
  const models::InputShape& in = model.model->input();
  if (model.model->classifier() == nullptr) {
    throw usage_error("the model is no classifier, so that it has no answer to an image", model.path,
                      "tessera eval scores it, and tessera caption lets a captioner write");
  }
  check_size(pp, in);
  const auto client = train::open_client(device);
  const size_t batch = rows_for(paths.size(), predict_batch(*client));
  const TensorType images = train::image_batch(*model.model, static_cast<int64_t>(batch));
  const train::Program program = train::predict_program(*model.model, model.layout,
                                                        {.batch = static_cast<int64_t>(batch),
                                                         .pixels = pp.pixel_scale(),
                                                         .compute = model.compute,
                                                         .hardware = train::hardware_of(*client, device.cache),
                                                         .one_call = paths.size() <= batch});
  const train::Compiled compiled =
      train::compile(*client, program, device.cache, train::arguments_of(model.layout, model.layout.params, images));
  state::DeviceArrays params = state::to_device(model.layout, model.params, *client);
  const train::FixedArguments fixed(compiled, params, model.layout.params);
  train::free_prepared({&compiled}, params);

  // Threads read the next batch while this one is copied to the device and the last one's answers are handed out.
  RowReader reader(pp, model.limits, static_cast<int64_t>(batch));
  std::vector<uint8_t> pixels(batch * pp.image_bytes()), next_pixels(paths.size() > batch ? pixels.size() : 0);
  const auto start_reading = [&](size_t begin, uint8_t* into) {
    const auto part = std::span(paths).subspan(begin, std::min(batch, paths.size() - begin));
    return std::async(std::launch::async, [&reader, part, into] { return with_errors(part, reader.read(part, into)); });
  };
  std::future<std::vector<Prediction>> next = start_reading(0, pixels.data());
  InFlight before;
  for (size_t begin = 0; begin < paths.size(); begin += batch) {
    InFlight now{next.get(), {}};
    if (begin + batch < paths.size()) next = start_reading(begin + batch, next_pixels.data());
    state::DeviceArrays rows(1);
    rows[0].push_back(client->to_device(pixels.data(), images));
    now.logits = std::move(compiled.executable.execute(fixed.with(rows))[0]);
    deliver(before, in.classes, take);
    before = std::move(now);
    pixels.swap(next_pixels);
  }
  deliver(before, in.classes, take);
}

std::vector<NamedScore> evaluate(config::Section recipe, const state::LoadedModel& model, const train::DeviceOptions& device,
                                 const std::string& predictions, std::shared_ptr<pjrt::Client> client) {
  TrainingData training;
  recipe.section("data").bind_part(training);
  if (!client) client = train::open_client(device);
  // The recipe's own word counts, its default does not: that of training was the run's.
  const DType compute = recipe.has("dtype") ? state::parse_compute(recipe.text("dtype"), recipe.place("dtype")) : model.compute;
  const state::StateLayout layout = spread(model.layout, recipe, train::devices_of(device, *client));
  // How often it runs in training does not matter here, so that any length of a run will do.
  recipe::EvalSetting setting{.model = model.model.get(),
                              .classes = model.class_names,
                              .multi_label = model.multi_label ? std::optional(true) : std::nullopt,
                              .classes_by_number = true,
                              .batch = std::max<int64_t>(1, training.batch),
                              .mesh = layout.mesh,
                              .held_out = recipe::held_out(recipe.section("data")),
                              .predictions = !predictions.empty()};
  read_objective(recipe, training.pp, model, setting);
  config::Section evals = recipe.section("eval");
  std::vector<recipe::EvalPlan> plans;
  for (const std::string& name : evals.keys()) {
    plans.push_back(recipe::read_eval(name, evals.section(name), setting));
    const bool classifies = model.model->classifier() != nullptr;
    if (classifies && plans.back().evaluator->inputs(0).labels) check_classes(plans.back(), model);
  }
  if (plans.empty()) {
    throw usage_error("the recipe has no evaluator", recipe.where("eval"),
                      "add one:\n  [eval.val]\n  data = { source = \"folder(data/val)\", pp = \"decode | …\" }");
  }
  EvalRunner runner(client, model, compute, layout, device);
  std::vector<NamedScore> scores;
  for (const recipe::EvalPlan& plan : plans) {
    const train::Evaluation result = runner.run(plan);
    if (!predictions.empty()) train::write_files(plan, result, store::join_path(predictions, plan.name));
    scores.push_back({plan.name, result.scores});
  }
  return scores;
}

}  // namespace tessera::inference
