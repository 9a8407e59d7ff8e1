#pragma once
// Evaluators: what is measured of a data set. An evaluator's program gives numbers for every example. The host gathers them in
// the source's order (train/evaluate/evaluate.h) and computes scores from them, in f64, so that scores do not depend on the batch or the
// mesh.
// An evaluator is a file and a line of evaluators.def.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/section.h"
#include "metrics/features.h"
#include "models/model.h"
#include "nn/scope.h"
#include "objectives/objective.h"

namespace tessera::evaluators {

struct ScoreKind {
  std::string name;
  // How often something is so, in [0, 1]: the more the better. Else a mean, the less the better.
  bool share = false;
};

// Numbers of each example.
struct Column {
  std::string name;
  int64_t width = 1;     // 0: what the model says; of the only column
  bool classes = false;  // places in the list of classes; the number of classes where there is no answer
};

// What a program made of a data set: the columns beside each other, of every example that could be read, in the source's order.
// Labels are empty where the source has none or a sample may have several. In memory they take 4 bytes a number.
struct Rows : metrics::LabelledFeatures {
  std::vector<int64_t> samples;    // places in the source
  std::vector<uint8_t> multi_hot;  // of a multi-label source in place of labels: [size(), classes] of 0 and 1

  int64_t size() const { return static_cast<int64_t>(samples.size()); }
};

// What an evaluator makes of them.
struct Outcome {
  std::vector<double> scores;  // in the order of score_kinds()
  // What there is to say of each example of the evaluator's own data.
  std::vector<Column> columns;
  metrics::Features predictions;
  metrics::Features features;  // of each of them; empty where the evaluator computes none
  std::string details;         // JSON, for a file of its own; may be empty
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // Throws a usage Error at a key of `section` (the recipe's [eval.NAME]) when it can't score this model.
  virtual void check(const models::Model& model, const config::Section& section) const = 0;
  // Whether it cuts what the model sees out of images that are larger.
  virtual bool cuts_crops() const { return false; }
  virtual std::vector<ScoreKind> score_kinds() const = 0;
  // The tables of [eval.NAME] that hold further data sets, like `data`, whose classes are the same. Set 0 is `data`, and these
  // come after it.
  virtual std::vector<std::string> further_sets() const { return {}; }
  // How many examples each class of a set must have.
  virtual int64_t least_of_a_class(size_t) const { return 0; }
  // Texts that make one more set after those: training's captions, rows of ids one after the other. inputs() of it are such a
  // row alone.
  virtual std::span<const int32_t> texts() const { return {}; }

  // Of examples of a set. Labels among the inputs are places in the model's list of classes.
  virtual const objectives::Inputs& inputs(size_t set) const = 0;
  // Whether it reads one label of each example, in its program or in Rows.
  virtual bool reads_one_label() const { return inputs(0).labels && inputs(0).multi_hot == 0; }
  virtual std::vector<Column> columns(size_t set) const = 0;
  // Each column, [B] or [B, width] of any type that f32 holds; `scope` is not for training. Rows without an example may hold
  // anything.
  virtual ir::Values rows(size_t set, const models::Model& model, const nn::Scope& scope,
                          const objectives::Batch& batch) const = 0;

  // `sets`: as many as there are, none of them empty. Unless an evaluator says otherwise, column_means() of set 0.
  virtual Outcome outcome(std::vector<Rows> sets) const;
};

// The mean of each score's column, where it has one; all columns of set 0 are its predictions.
Outcome column_means(const Evaluator& evaluator, metrics::Features rows);

// What an evaluator is made for.
struct EvaluatorData {
  objectives::DataInputs inputs;
  std::vector<std::string> class_names;
  // How training makes its captions: the row of ids of a text, longer ones cut. Nothing where it reads none.
  std::optional<objectives::TokenInput> captions = {};
  std::function<std::vector<int32_t>(const std::string&)> encode = {};
  int64_t examples = 0;                                                          // of the source
  std::function<std::string(int64_t)> id = {};                                   // of each
  std::function<std::shared_ptr<const objectives::Objective>()> objective = {};  // training's
  bool predictions = false;                                                      // whether predictions are wanted
};

// What `type` of [eval.NAME] chooses.
struct EvaluatorKind {
  const char* name;
  const char* help;
  // Reads the section's further keys. Usage Errors for data without what the evaluator reads.
  std::shared_ptr<const Evaluator> (*make)(config::Section section, const EvaluatorData& available);
  std::vector<config::KeyDoc> (*keys)(const std::string& prefix);  // those further keys
};
#define EVALUATOR(object) extern const EvaluatorKind object;
#include "evaluators/evaluators.def"
#undef EVALUATOR

// By evaluators.def, in its order.
const std::vector<const EvaluatorKind*>& evaluator_kinds();

// The evaluator that `section` ([eval.NAME]) names as its `type`, with its options. Usage Errors for unknown names and for data
// without what it reads, or with several labels an image where it reads one.
std::shared_ptr<const Evaluator> make_evaluator(config::Section section, const EvaluatorData& available);
std::vector<std::string> evaluator_names();
// The default of `type`: classification, or multilabel of data with several labels an image.
std::string usual_evaluator(const objectives::DataInputs& available);

}  // namespace tessera::evaluators
