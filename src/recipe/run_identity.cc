#include "recipe/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "config/section.h"
#include "data/text/text_encoder.h"
#include "recipe/data_names.h"
#include "recipe/keys.h"

namespace tessera::recipe {
namespace {

constexpr int64_t kMaxNames = 4096;

// Where samples are files, spread over all of them. Those in shards may have to be read for their names.
void add_names(const data::Source& source, Hasher& hasher) {
  if (source.facts().shards > 0) return;
  const int64_t size = source.size(), count = std::min(size, kMaxNames);
  for (int64_t i = 0; i < count; ++i) {
    hasher.add(source.id(i * (size / count) + i * (size % count) / count));
  }
}

std::string key_differences(const state::RunDescription& theirs, const state::RunDescription& ours) {
  std::string text;
  for (const config::Difference& change : changed_keys(theirs.recipe, ours.recipe)) {
    if (key_may_change(change.key)) continue;
    text += fmt::format("\n  {} = {}   here: {}", change.key, shown_value(change.left), shown_value(change.right));
  }
  return text;
}

// Of training's data, and the names of some files.
std::string data_differences(const state::RunDescription& theirs, const state::RunDescription& ours, const Data& opened,
                             const std::string& names) {
  if (theirs.data.same_as(ours.data)) return "";
  state::DataIdentity images = theirs.data;
  images.tokenizers.clear();
  if (images.same_as(ours.data)) {
    std::vector<std::string> paths;
    for (const data::DataSet& set : opened.sets) {
      for (const data::TokenField& field : set.pp->token_fields()) {
        std::string path = one_line(field.encoder->tokenizer().path());
        if (std::ranges::count(paths, path) == 0) paths.push_back(std::move(path));
      }
    }
    return fmt::format("\n  the tokenizer `{}` is another file, so that tokens mean other words", join(paths, "` or `"));
  }
  std::string text = fmt::format("\n  data of {} samples", theirs.data.samples);
  text += theirs.data.samples != ours.data.samples ? fmt::format("   here: {}", ours.data.samples)
                                                   : " with other names, classes or labels than here";
  const auto now = names.empty() ? std::nullopt : data_names(opened);
  return now ? text + name_changes(names, *now) : text;
}

// Where other data are no reason to stop. The model has an output for each class.
void expect_same_classes(const state::RunDescription& theirs, const state::RunDescription& ours, const std::string& where) {
  if (theirs.class_names == ours.class_names) return;
  throw data_error(
      fmt::format("the data have {} classes, and had {} when the run began: {}   here: {}", ours.class_names.size(),
                  theirs.class_names.size(), one_line(join(theirs.class_names, ", ")), one_line(join(ours.class_names, ", "))),
      where, "a run keeps its classes; begin another one with model_init.from, which keeps what fits");
}

}  // namespace

std::string shown_value(const std::string& text) { return text.empty() ? "(absent)" : text; }

std::string tokenizers_hash(const std::vector<const data::Pp*>& chains) {
  Hasher hasher;
  bool any = false;
  for (const data::Pp* pp : chains) {
    for (const data::TokenField& field : pp->token_fields()) {
      hasher.add(field.name).add(to_string(field.encoder->tokenizer().fingerprint()));
      any = true;
    }
  }
  return any ? to_string(hasher.finish()) : "";
}

state::DataIdentity data_identity(const Data& opened) {
  Hasher hasher;
  for (const data::DataSet& set : opened.sets) {
    const data::Source& source = *set.source;
    hasher.add(std::to_string(source.size())).add(std::to_string(source.facts().shards));
    hasher.add(std::to_string(source.class_names().size()));
    for (const std::string& name : source.class_names()) hasher.add(name);
    add_names(source, hasher);
  }
  state::DataIdentity identity{opened.size(), to_string(hasher.finish())};
  identity.names = names_hash(opened);
  std::vector<const data::Pp*> chains;
  for (const data::DataSet& set : opened.sets) chains.push_back(set.pp.get());
  identity.tokenizers = tokenizers_hash(chains);
  return identity;
}

std::string data_summary(const Recipe& recipe) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& section, const Data& opened) {
    const state::DataIdentity identity = data_identity(opened);
    lines.push_back(fmt::format("{}: {} samples, {} classes, identity {}{}", section, human_count(identity.samples),
                                opened.source().class_names().size(), identity.hash,
                                identity.tokenizers.empty() ? "" : ", tokenizers " + identity.tokenizers));
  };
  add("data", recipe.data);
  for (const EvalPlan& eval : recipe.evals) {
    for (const EvalSet& set : eval.sets) {
      if (set.texts == 0) add("eval." + eval.name, set.data);
    }
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string run_name(const state::RunDescription& run) {
  Hasher hasher;
  hasher.add(run.data.hash);
  for (const config::Difference& key : config::difference("", run.recipe)) {
    if (!key_may_change(key.key)) hasher.add(key.key).add(key.right);
  }
  return to_string(hasher.finish());
}

DataChanges check_run(const checkpoint::LoadedCheckpoint& checkpoint, const state::RunDescription& ours, const Data& opened,
                      const std::string& names) {
  if (const int64_t step = state::parse_progress(checkpoint.state_json, checkpoint.path).step; step != checkpoint.step) {
    throw data_error(fmt::format("its state.json is of step {}, and its COMMIT of step {}", step, checkpoint.step),
                     checkpoint.path, "restore the checkpoint from a copy, or move it away to go on from the one before");
  }
  const state::RunDescription theirs = state::parse_description(checkpoint.state_json, checkpoint.path);
  DataChanges changes;
  for (const auto& [name, identity] : ours.eval_data) {
    const auto before = theirs.eval_data.find(name);
    if (before != theirs.eval_data.end() && !before->second.same_as(identity)) changes.evaluators.push_back(name);
  }
  // Another version may have named the same run otherwise: what counts is what differs.
  const bool named = !checkpoint.run.empty() && checkpoint.run != run_name(ours);
  const std::string keys = named ? key_differences(theirs, ours) : "";
  changes.training = data_differences(theirs, ours, opened, names);
  if (!keys.empty()) {
    throw data_error(
        fmt::format("the newest checkpoint of the workdir is another run's{}{}", keys, changes.training), checkpoint.path,
        "move it away to go on from the checkpoint before; or continue that run in a workdir of its own, with its own "
        "recipe and data");
  }
  if (changes.training.empty()) return changes;
  if (!opened.may_change) {
    throw data_error(
        fmt::format("the training data are others than when the newest checkpoint was written{}", changes.training),
        checkpoint.path, "put the files back as they were; or go on with those that are there: data.on_change=accept");
  }
  expect_same_classes(theirs, ours, checkpoint.path);
  return changes;
}

}  // namespace tessera::recipe
