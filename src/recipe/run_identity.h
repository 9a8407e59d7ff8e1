#pragma once
// Whose a checkpoint is: what of a recipe and its data fixes a run's numbers.

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "recipe/data_options.h"
#include "recipe/recipe.h"
#include "state/progress.h"

namespace tessera::recipe {

// A value of a recipe for a message, which says where there is none.
std::string shown_value(const std::string& text);

state::DataIdentity data_identity(const Data& data);

// The data of training and of every evaluator, a line each: samples, classes and identity. Equal where processes see the same.
std::string data_summary(const Recipe& recipe);

// 32 hexadecimal digits: equal for runs whose recipes differ only in keys that may change (recipe/keys.h), and whose data are
// the same.
std::string run_name(const state::RunDescription& run);

// How the data of a run changed since a checkpoint of it.
struct DataChanges {
  std::string training;                 // in words, for a message; empty: it is the same
  std::vector<std::string> evaluators;  // the names of those whose data changed
};

// Throws a data Error when the checkpoint says that it is of another run, naming what differs, or when its parts name different
// steps. Checkpoints that say nothing, as older versions' do, are taken. Where training's data differ, that is an Error too unless
// they may change (data.on_change) and their classes are the same. `names`: the file of names that was written with the earlier data
// (recipe/data_names.h); empty: there is none.
DataChanges check_run(const checkpoint::LoadedCheckpoint& checkpoint, const state::RunDescription& ours, const Data& data,
                      const std::string& names);

}  // namespace tessera::recipe
