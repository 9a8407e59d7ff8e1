#pragma once
// What an evaluator measures of each example of a data set. A scorer is a file and a line of scorers.def; sums over the
// data set are exact whatever the batch (train/evaluate.h).

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/section.h"
#include "models/model.h"
#include "nn/scope.h"
#include "objectives/batch.h"

namespace tessera::objectives {

struct ScoreKind {
  std::string name;
  // How often something is so: 1 or 0 for each example, the more the better. Else a mean, the less the better.
  bool share = false;
};

class Scorer {
 public:
  virtual ~Scorer() = default;

  virtual const Inputs& inputs() const = 0;
  // Throws a usage Error at a key of `section` (the recipe's [eval.NAME]) when it can't score this model.
  virtual void check(const models::Model& model, const config::Section& section) const = 0;
  virtual std::vector<ScoreKind> scores() const = 0;

  // What the model makes of the batch; `scope` is not for training.
  virtual ir::Values outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const = 0;
  // Of each example, f32 [B]. Rows without an example may hold anything; a share is finite even there.
  virtual ir::Value score(size_t index, const ir::Values& outputs, const Batch& batch) const = 0;
};

// What a scorer is made for.
struct ScorerData {
  DataInputs inputs;
  std::vector<std::string> class_names;
  // How training makes its captions: the row of ids of a text, longer ones cut. Nothing where it reads none.
  std::optional<TokenInput> captions;
  std::function<std::vector<int32_t>(const std::string&)> encode;
};

// The scorer that `section` ([eval.NAME]) names as its `type`, with its options. Usage Errors for unknown names and for data
// without what it reads.
std::shared_ptr<const Scorer> make_scorer(config::Section section, const ScorerData& data);
std::vector<std::string> scorer_names();

}  // namespace tessera::objectives
