#pragma once
// Which run a checkpoint belongs to, told by the parts of the recipe and the data that fix a run's numbers.

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "recipe/data_options.h"
#include "recipe/recipe.h"
#include "state/progress.h"

namespace tessera::recipe {

// A value of a recipe for a message, which says where there is none.
std::string shown_value(const std::string& text);

state::DataIdentity data_identity(const Data& opened);

// Of the tokenizers' files of these chains, as data_identity() has it; empty where none makes tokens.
std::string tokenizers_hash(const std::vector<const data::Pp*>& chains);

// A line for the data of training and of each evaluator: samples, classes and identity. Processes that see the same data get
// the same text.
std::string data_summary(const Recipe& recipe);

// 32 hexadecimal digits. Two runs have the same if they have the same data, and their recipes differ only in keys that may
// change (recipe/keys.h).
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
DataChanges check_run(const checkpoint::LoadedCheckpoint& checkpoint, const state::RunDescription& ours, const Data& opened,
                      const std::string& names);

}  // namespace tessera::recipe
