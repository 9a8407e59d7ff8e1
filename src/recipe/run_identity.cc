#include "recipe/run_identity.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "config/section.h"
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

std::string differences(const state::RunDescription& theirs, const state::RunDescription& ours) {
  std::string text;
  for (const config::Difference& change : changed_keys(theirs.recipe, ours.recipe)) {
    if (key_may_change(change.key)) continue;
    text += fmt::format("\n  {} = {}   here: {}", change.key, shown_value(change.left), shown_value(change.right));
  }
  if (theirs.data.hash.empty() || theirs.data.hash == ours.data.hash) return text;
  if (theirs.data.samples != ours.data.samples) {
    return text + fmt::format("\n  data of {} samples   here: {}", theirs.data.samples, ours.data.samples);
  }
  return text + fmt::format("\n  data of {} samples with other names or classes than here", theirs.data.samples);
}

}  // namespace

std::string shown_value(const std::string& text) { return text.empty() ? "(absent)" : text; }

state::DataIdentity data_identity(const Data& data) {
  Hasher hasher;
  for (const data::DataSet& set : data.sets) {
    const data::Source& source = *set.source;
    hasher.add(std::to_string(source.size())).add(std::to_string(source.facts().shards));
    hasher.add(std::to_string(source.class_names().size()));
    for (const std::string& name : source.class_names()) hasher.add(name);
    add_names(source, hasher);
  }
  return {data.size(), to_string(hasher.finish())};
}

std::string data_summary(const Recipe& recipe) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& section, const Data& data) {
    const state::DataIdentity identity = data_identity(data);
    lines.push_back(fmt::format("{}: {} samples, {} classes, identity {}", section, human_count(identity.samples),
                                data.source().class_names().size(), identity.hash));
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

void check_run(const checkpoint::LoadedCheckpoint& checkpoint, const state::RunDescription& ours) {
  if (const int64_t step = state::parse_progress(checkpoint.state_json, checkpoint.path).step; step != checkpoint.step) {
    throw data_error(fmt::format("its state.json is of step {}, and its COMMIT of step {}", step, checkpoint.step),
                     checkpoint.path, "restore the checkpoint from a copy, or move it away to go on from the one before");
  }
  if (checkpoint.run.empty() || checkpoint.run == run_name(ours)) return;
  const std::string differing = differences(state::parse_description(checkpoint.state_json, checkpoint.path), ours);
  // Another version may have named the same run otherwise: what counts is what differs.
  if (differing.empty()) return;
  throw data_error(
      fmt::format("the newest checkpoint of the workdir is another run's{}", differing), checkpoint.path,
      "move it away to go on from the checkpoint before; or continue that run in a workdir of its own, with its own "
      "recipe and data");
}

}  // namespace tessera::recipe
