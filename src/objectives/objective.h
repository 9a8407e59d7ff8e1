#pragma once
// What training minimises, and what it measures by the way. An objective is a file and a line of objectives.def; the training
// step, its micro-batches and its specs on a mesh work over whatever inputs it names.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/section.h"
#include "ir/processes.h"
#include "models/model.h"
#include "nn/scope.h"
#include "objectives/batch.h"

namespace tessera::objectives {

// A second model, a classifier that training learns from: where it lies, and which of its weights (raw or average).
struct TeacherSource {
  std::string from, weights;
};

class Objective {
 public:
  virtual ~Objective() = default;

  virtual const Inputs& inputs() const = 0;
  // Whether an example's loss depends on no other example.
  virtual bool per_example() const { return true; }
  // How many rows of a batch it takes to stand for one image, as DataInputs has them.
  virtual int64_t views() const { return 1; }
  // The model whose logits it reads in Batch::teacher; most have none.
  virtual std::optional<TeacherSource> teacher() const { return std::nullopt; }
  // Throws a usage Error at a key of `section` (the recipe's `model`) when it is no model for this objective.
  virtual void check(const models::Model& model, const config::Section& section) const = 0;

  // What the model makes of each example, [B, …]; `scope` is for training.
  virtual ir::Values outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const = 0;
  // What the loss and the metrics read, made of the outputs of a whole batch: those themselves where it compares none.
  virtual ir::Values combine_batch(const models::Model& model, const nn::Scope& scope, const ir::Values& outputs) const;
  // Of each example, f32 [B]. Training minimises the mean over the batch, or the weighted one.
  virtual ir::Value loss(const ir::Values& outputs, const Batch& batch) const = 0;
  // Where the mean over the batch is weighted, the weights, f32 [B]: loss() has each as a factor already, and the sum of the
  // losses is divided by the sum of these. Null where it is the plain mean: always, unless it weighs_examples(), and then of
  // mixed batches.
  virtual bool weighs_examples() const { return false; }
  virtual ir::Value example_weights(const Batch&) const { return {}; }

  // Further measurements: metrics.jsonl has the mean over the batch of each as `training_<name>`.
  virtual std::vector<std::string> metrics() const { return {}; }
  // Of each example, f32 [B]; nothing is differentiated through it.
  virtual ir::Value metric(size_t index, const ir::Values& outputs, const Batch& batch) const;
};

// Batch::loss_scale for a whole batch: the number of its examples by the sum of their weights, over all processes; null where
// the objective weighs none.
ir::Value loss_scale(const Objective& objective, const Batch& batch, const ir::Processes& processes = {});

// What a recipe's objective.name chooses.
struct ObjectiveKind {
  const char* name;
  const char* help;
  // Reads the `objective` section. Usage Errors for data without what the objective reads.
  std::shared_ptr<const Objective> (*make)(config::Section section, const DataInputs& available);
  std::vector<config::KeyDoc> (*keys)(const std::string& prefix);  // its options
};
#define OBJECTIVE(object) extern const ObjectiveKind object;
#include "objectives/objectives.def"
#undef OBJECTIVE

// By objectives.def, in its order.
const std::vector<const ObjectiveKind*>& objective_kinds();

// Reads the recipe's `objective` section. Usage Errors for unknown names and for data without what the objective reads.
std::shared_ptr<const Objective> make_objective(config::Section section, const DataInputs& available);
std::vector<std::string> objective_names();

// The token field `name` of the data, or its only one where `name` is empty. A usage Error at `key` when there is none.
const TokenInput& find_tokens(const DataInputs& available, const std::string& name, const config::Section& section,
                              const char* key);

}  // namespace tessera::objectives
