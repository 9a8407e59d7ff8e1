#pragma once
// Exact evaluation: every image once, in the source's order, whatever the number of images, the batch and the mesh.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "state/device_arrays.h"
#include "train/process/device.h"
#include "train/process/processes.h"
#include "train/step/fixed_arguments.h"

namespace tessera::train {

struct Score {
  std::string name;
  bool share = false;  // in [0, 1], the more the better; else a mean, the less the better (evaluators/evaluator.h)
  double value = 0;
  bool better_than(double other) const { return share ? value > other : value < other; }
};

struct Scores {
  std::vector<Score> values;  // shares first: values[0] tells whether a model is better
  int64_t count = 0;          // images
  int64_t skipped = 0;        // files that could not be read, left out of everything above

  // The score `name`, which must be there.
  double at(std::string_view name) const;
  std::optional<double> find(std::string_view name) const;
};

struct Evaluation {
  Scores scores;
  // Of each example that counts, in the source's order: its place there, its label (where there are any), and its predictions.
  std::vector<int64_t> samples;
  std::vector<int32_t> labels;
  std::vector<uint8_t> multi_hot;  // of a multi-label source in place of labels (evaluators/evaluator.h)
  std::vector<evaluators::Column> columns;
  metrics::Features predictions;
  metrics::Features features;  // of each of them, where the evaluator computes some
  std::string details;         // JSON; may be empty
  // What could not be read, of any of the plan's sets: the names of the sources, and the files.
  std::vector<std::pair<std::string, data::SkippedFile>> skipped;
};

using EvalPrograms = std::vector<std::shared_ptr<const Compiled>>;

// Of a data set.
struct SetRows {
  evaluators::Rows rows;
  int64_t skipped = 0;
  std::vector<data::SkippedFile> files = {};
};

class EvaluationRunner {
 public:
  // `programs`: for each set of the plan, of eval_program for this layout and the set's rows and pp chain. Each of several
  // processes works off its rows of every batch, and has those of all in the end.
  EvaluationRunner(std::shared_ptr<const pjrt::Client> client, EvalPrograms programs, const state::StateLayout& layout,
                   const recipe::EvalPlan& plan, Processes& processes)
      : client_(std::move(client)), programs_(std::move(programs)), layout_(&layout), plan_(&plan), processes_(&processes) {}

  // The parameters at the head of `state`, or their averages at entry `first`, are read, not consumed. Nothing when stop()
  // became true before the last batch.
  std::optional<Evaluation> run(state::DeviceArrays& state, const std::function<bool()>& stop = {}, size_t first = 0) const;

 private:
  using Stop = std::function<bool()>;
  std::optional<SetRows> rows_of(size_t set, const FixedArguments& fixed, const Stop& stop) const;
  std::optional<SetRows> rows_of_texts(size_t set, const FixedArguments& fixed, const Stop& stop) const;
  int64_t first_place(const recipe::EvalSet& set) const;
  pjrt::Buffer execute(size_t set, const FixedArguments& fixed, state::DeviceArrays& arguments) const;

  std::shared_ptr<const pjrt::Client> client_;
  EvalPrograms programs_;
  const state::StateLayout* layout_;
  const recipe::EvalPlan* plan_;
  Processes* processes_;
};

// What the plan wants in files: PATH.jsonl or PATH.parquet, a line or row for each example (`id`, `label` or a list `labels`, and the columns;
// classes by name, null for no answer), where `predictions` is set; PATH.json, the evaluator's details, where it has some;
// PATH.skipped.jsonl, a line for each file that could not be read (`source`, `id`, `reason`), where there are any, and a
// warning that says where. Makes the directory. Throws a data Error, a store::IoError but for what Arrow could not write.
void write_files(const recipe::EvalPlan& plan, const Evaluation& evaluation, const std::string& path);

}  // namespace tessera::train
