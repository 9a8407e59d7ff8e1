#pragma once
// Uses a trained model: gives its predictions for images, and its scores.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/section.h"
#include "state/model_source.h"
#include "train/evaluate/evaluate.h"
#include "train/process/device.h"

namespace tessera::inference {

// The model's prediction for one image file, or why there is none.
struct Prediction {
  std::string path;
  std::vector<float> logits;  // one for each class; empty when the file could not be read
  std::string error;          // "truncated: …"
};

// `take` gets every path's prediction, in the order of `paths`. `pp` is the preprocessing chain, of evaluation; a chain that
// makes images of another size than the model's is a usage Error.
void predict(const state::LoadedModel& model, const std::string& pp, const std::vector<std::string>& paths,
             const train::DeviceOptions& device, const std::function<void(Prediction)>& take);

struct NamedScore {
  std::string name;  // of [eval.NAME]
  train::Scores scores;
};

// The recipe's evaluators, in its order, over every image. Sources of training data are not opened. A recipe without
// evaluators, and one whose classes are not the model's, are usage Errors. `predictions`: a directory for the files of every
// evaluator (write_files), its predictions among them; empty: none. `client`: of `device`; null: one is opened.
std::vector<NamedScore> evaluate(config::Section recipe, const state::LoadedModel& model, const train::DeviceOptions& device,
                                 const std::string& predictions = {}, std::shared_ptr<pjrt::Client> client = nullptr);

}  // namespace tessera::inference
