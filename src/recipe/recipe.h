#pragma once
// A recipe, read whole: every mistake that needs no device is found here, before anything is compiled or written.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/duration.h"
#include "config/section.h"
#include "evaluators/evaluator.h"
#include "mesh/sharding_rules.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "optim/average.h"
#include "optim/optimizer.h"
#include "recipe/data_options.h"
#include "state/model_source.h"
#include "state/state.h"

namespace tessera::recipe {

// The recipe's own keys.
struct RunOptions {
  int64_t seed = 0;
  std::string total;
  std::string dtype = "f32";
  int64_t accumulate = 1;
  std::string mesh;
  std::optional<int64_t> optimization_level;
  std::string log = "50 steps";
  bool eval_at_start = false;
  std::string early_stop;
  std::optional<std::string> resume;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("seed", seed, "of initial weights, sample order and augmentation; 0 or more");
    field("total", total, may_change("length of the run: \"60 epochs\", \"10000 steps\", \"1e8 examples\""));
    field("dtype", dtype, "of activations and products: f32 or bf16; weights and moments are f32 always");
    field("accumulate", accumulate,
          may_change("micro-batches inside a step: less memory for the same batch; divides data.batch"));
    field("mesh", mesh,
          may_change("axes of the devices: \"replica=2, fsdp=4\", and tensor; one size may be -1; all replicas when empty"));
    field(
        "optimization_level", optimization_level,
        may_change(
            "of the compiler, 0 to 3: 0 compiles fastest, 2 runs fastest, 3 is experimental; the plugin's own when not given"));
    field("log", log, may_change("how often training measurements are written"));
    field("eval_at_start", eval_at_start, may_change("evaluate before the first step too"));
    field("resume", resume,
          "where another run is gone on from, as RUN or RUN@STEP: its weights, averages, moments, step and schedule, with what "
          "this recipe has otherwise; total counts from its step 0");
    field(
        "early_stop", early_stop,
        may_change("ends the run when a score does not get better: \"val/loss, patience=5 epochs\"; patience is a duration, or "
                   "evaluations as patience=3; min_delta=0.001: less than that is no better"));
  }
};

struct CheckpointOptions {
  std::string every = "10 %";
  int64_t keep = 2;
  std::optional<std::string> keep_every;
  std::string best = "training_loss";
  int64_t keep_best = 1;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("every", every, may_change("how often the state is saved; at the end always"));
    field("keep", keep, may_change("how many of the latest checkpoints stay, 1 to 1000000"));
    field("keep_every", keep_every,
          may_change("the state is saved at multiples of this too, and those checkpoints stay for ever"));
    field(
        "best", best,
        may_change(
            "the best one stays too: by training_loss, of those saved; or by a score as val/prec@1, and each new best is saved "
            "at once; none: no other than the latest"));
    field("keep_best", keep_best, may_change("how many of the best checkpoints stay, 1 to 1000000"));
  }
};

// When a step's update is skipped. Without this section, a measurement that is not finite ends the run.
struct GuardOptions {
  int64_t max_skips = 3;
  std::optional<double> spike;
  int64_t window = 100;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("max_skips", max_skips,
          may_change("updates whose loss, gradient or step is not finite are skipped, and their batches kept in "
                     "<workdir>/bad_batches; so many in a row end the run with exit code 5"));
    field("spike", spike,
          may_change("skip updates too whose gradient norm is above so many times its running average; never when not given"));
    field("window", window, may_change("updates that this average goes over; nothing is a spike before so many were made"));
  }
};

// The help of monitor.sinks, which names them all. It lasts as long as the program.
const char* sinks_help();

// Where measurements go besides metrics.jsonl and summary.csv.
struct MonitorOptions {
  std::vector<std::string> sinks = {"tensorboard"};
  int64_t images = 16, worst = 8, projector = 500;
  std::string histograms = "none";
  std::string profile = "auto";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("sinks", sinks, may_change(sinks_help()));
    field("images", images, may_change("how many images of the first batch sinks get, as the model sees them; 0 for none"));
    field("worst", worst, may_change("how many of the images with the greatest loss sinks get at each evaluation; 0 for none"));
    field("projector", projector,
          may_change(
              "examples whose features TensorBoard's projector gets at the end, of evaluators that compute them; 0 for none"));
    field(
        "histograms", histograms,
        may_change("how often sinks get histograms of parameters, updates and gradients, as \"500 steps\", or none; each takes "
                   "the time of a step, and some for each parameter"));
    field("profile", profile,
          may_change(
              "steps to profile into <workdir>/plugins/profile: \"steps 2-6\" or \"step 2\"; auto: only those after a step "
              "that took three times as long as others; none"));
  }
};

// What monitor.profile asks for.
struct ProfilePlan {
  int64_t first = 0, last = 0;  // steps, counted from 1; 0: none
  bool slow_steps = true;       // those after a step that took much longer than others
};

// The score by which the best checkpoint is chosen.
struct BestMetric {
  std::string name;    // training_loss, or <evaluator>/<score>
  bool share = false;  // the more the better; else the less

  bool of_training() const;
  bool better(double value, double than) const { return share ? value > than : value < than; }
};

// When a run ends before its total: once a score has not become better for so long.
struct EarlyStop {
  BestMetric metric;         // of an evaluator
  int64_t patience = 0;      // steps, or evaluations
  bool evaluations = false;  // which of them
  double min_delta = 0;      // what is better by less is not
  std::string text;          // of `patience`, for messages: "5 epochs"
};

struct EvalOptions {
  std::string type = "classification";  // multilabel where the data has several labels an image
  std::string every = "1 epoch";
  bool skip_first = false, at_end = true;
  std::optional<int64_t> batch;
  bool predictions = false;
  std::string predictions_format = "jsonl";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("type", type, "what is measured of every image; multilabel where the data has several labels an image");
    field("every", every, may_change("how often; \"100 %\": at the end only"));
    field("skip_first", skip_first, may_change("not before the first step, whatever eval_at_start says"));
    field("at_end", at_end, may_change("at the end too, whatever `every` says"));
    field("batch", batch, may_change("images at once; data.batch when not given"));
    field("predictions", predictions,
          may_change("write what is said of every image to <workdir>/evals/NAME_<step>.jsonl or .parquet"));
    field("predictions_format", predictions_format,
          may_change("of that file: jsonl, or parquet, which needs ./dev parquet-deps once"));
  }
};

// Processes that train one run.
struct ProcessGroup {
  int64_t count = 1;
  bool joint = false;  // one mesh spans the devices of all of them, where their plugin has collectives between processes

  int64_t meshes() const { return joint ? 1 : count; }
};

// A data set of an evaluator.
struct EvalSet {
  Data data;
  int64_t texts = 0;  // of the evaluator's, in place of data
  int64_t batch = 0;
  ProcessGroup processes = {};  // that share each batch

  int64_t rows() const { return batch / processes.count; }             // of a process
  int64_t program_rows() const { return batch / processes.meshes(); }  // on the devices of a mesh
  int64_t size() const { return texts > 0 ? texts : data.source().size(); }
  data::PixelScale pixels() const { return texts > 0 ? data::PixelScale{} : data.pp().pixel_scale(); }
  // Rows and columns of its images; empty where it has texts.
  Dims image_size() const { return texts > 0 ? Dims{} : Dims{data.pp().height(), data.pp().width()}; }
};

struct EvalPlan {
  std::string name;  // of [eval.NAME]
  EvalOptions options;
  std::shared_ptr<const evaluators::Evaluator> evaluator;
  std::vector<EvalSet> sets;  // `data`, then the evaluator's further sets and texts
  int64_t every = 0;          // steps
};

struct Teacher;  // recipe/teacher.h

struct Recipe {
  RunOptions run;
  ProcessGroup processes = {};  // that share each batch
  mesh::Mesh mesh;              // of all processes, or of each
  mesh::ShardingOptions sharding;
  CheckpointOptions checkpoint;
  MonitorOptions monitor;
  Data data;
  int64_t batch = 0;
  std::unique_ptr<models::Model> model;
  std::vector<nn::ParamSpec> specs;
  std::shared_ptr<const objectives::Objective> objective;
  std::shared_ptr<const Teacher> teacher;       // of the objective, on the mesh; null where it has none
  std::unique_ptr<optim::Optimizer> optimizer;  // bound to specs
  std::optional<optim::Average> average;        // of the weights
  std::optional<GuardOptions> guard;            // nothing: no update is skipped
  std::optional<state::ModelInit> model_init;
  std::vector<EvalPlan> evals;
  std::optional<BestMetric> best;  // nothing: none is kept as the best
  std::optional<EarlyStop> early_stop;

  DType compute = DType::kF32;
  int64_t total = 0;  // steps
  int64_t examples_per_epoch = 0;
  // Steps; 0: at the end only (keep_every and histograms_every: never).
  int64_t log_every = 0, checkpoint_every = 0, keep_every = 0, histograms_every = 0;
  ProfilePlan profile;
  std::string text;  // the resolved recipe
  std::vector<std::string> class_names;

  // Rows of a batch on the devices of the mesh: more than images where data.pp makes several views of each.
  int64_t program_rows() const { return batch * data.pp().views() / processes.meshes(); }
  // Of all processes.
  int64_t devices() const { return mesh.devices() * processes.meshes(); }
  // Whether a checkpoint of this step is due, whatever its scores.
  bool saves_at(int64_t step) const;
  double epochs(int64_t step) const {
    return static_cast<double>(step) * static_cast<double>(batch) / static_cast<double>(examples_per_epoch);
  }
};

// Reads, opens and checks all of it, for a run on so many devices: of all processes where one mesh spans them, else of each. Usage
// Errors for the recipe, data Errors for what its sources lack.
Recipe read_recipe(config::Section recipe, int64_t devices = 1, const ProcessGroup& processes = {});
// The chain that prepares an image for the trained model: the first evaluator's, with the central crop where that cuts crops of its
// own. Empty where there is no evaluator.
std::string inference_pp(const Recipe& recipe);
// The state of a run of this recipe, on its mesh. Warns about sharding rules that match nothing.
state::StateLayout recipe_layout(const Recipe& recipe);

// Usage Error at `where` unless `batch` can be cut for the mesh, and for the processes where each has one, into equal parts of
// `accumulate` micro-batches; sizes that can are listed.
void check_batch(int64_t batch, int64_t accumulate, const mesh::Mesh& mesh, const std::string& where,
                 const ProcessGroup& processes = {});

// What evaluators need to know about training.
struct EvalSetting {
  const models::Model* model = nullptr;
  std::vector<std::string> classes;  // of training; empty: whatever the evaluator's data has
  std::optional<bool> multi_label;   // whether training's images have several labels; nothing: not known
  bool classes_by_number = false;    // where the data's names are not among `classes`, which may be in words of their own
  int64_t batch = 1;                 // where the evaluator has none of its own
  optim::RunLength length;
  mesh::Mesh mesh;
  ProcessGroup processes = {};
  HeldOut held_out = {};  // of training's data
  // How training makes captions (evaluators/evaluator.h).
  std::optional<objectives::TokenInput> captions;
  std::function<std::vector<int32_t>(const std::string&)> encode;
  bool predictions = false;                                                 // of every evaluator, whatever its section says
  std::function<std::shared_ptr<const objectives::Objective>()> objective;  // training's
};
// Takes captions and encode from the training chain.
void set_captions(const objectives::Objective& objective, const data::Pp& pp, EvalSetting& setting);
// One evaluator's plan from its section.
EvalPlan read_eval(const std::string& name, config::Section section, const EvalSetting& setting);

// The scores that a run of the recipe gives: of each evaluator in its order, shares first, and those of averaged weights behind
// them; then training_loss.
std::vector<BestMetric> scores_of(const Recipe& recipe);
// Help for the name of a score that is none of `scores`: the one that was meant ("val/accuracy" for val/prec@1), or all.
std::string suggest_score(const std::string& name, const std::vector<std::string>& scores);

// Whether a score, by its name or <evaluator>/<name>, is shown in per cent: shares are, but for Cohen's kappa, which is less than
// 0 for less agreement than by chance.
bool in_per_cent(std::string_view score, bool share);

// False for a score that is always the same: top-5 accuracy of at most five classes, which is 1. `classes` is 0 where the model
// has none.
bool tells_something(std::string_view score, int64_t classes);

// What scores of averaged weights are called: "val" -> "val_ema".
std::string averaged_name(const std::string& evaluator);

// True at multiples of `every` (none when it is 0) unless within a quarter of it from the end, and always at the end:
// big_vision's itstime().
bool due(int64_t step, int64_t every, int64_t total);
// The same for an evaluator after `step` steps of a run.
bool due(const EvalPlan& plan, int64_t step, const RunOptions& run, int64_t total);

}  // namespace tessera::recipe
