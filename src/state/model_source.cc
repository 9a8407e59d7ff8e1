#include "state/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/system/process.h"
#include "base/text/text.h"
#include "checkpoint/commit.h"
#include "checkpoint/remote/fetch_weights.h"
#include "checkpoint/remote/run_copy.h"
#include "data/limits.h"
#include "interop/model_config.h"
#include "interop/nearest_model.h"
#include "interop/timm_import.h"
#include "state/hub_cache.h"
#include "state/progress.h"
#include "state/run_steps.h"
#include "state/weight_file.h"
#include "store/checksums.h"
#include "store/small_file.h"
#include "store/url.h"

namespace tessera::state {
namespace {

constexpr std::string_view kConfig = "config.json", kProcessor = "preprocessor_config.json";

// Of a recipe's own keys, what using its model takes.
struct ComputeOptions {
  std::string dtype = "f32";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("dtype", dtype, "of activations and products");
  }
};

enum class SourceKind { kCheckpoint, kWorkdir, kDirectory, kFile };

// The runs in a directory, as those of a sweep are: their paths.
std::vector<std::string> runs_below(const std::string& directory) {
  store::FileSystem& files = store::local_files();
  std::vector<std::string> runs;
  if (const auto info = files.info(directory); !info || !info->directory) return runs;
  for (const store::FileInfo& entry : files.list(directory)) {
    const std::string path = store::join_path(directory, entry.name);
    if (entry.directory && files.info(store::join_path(path, "checkpoints"))) runs.push_back(one_line(path));
  }
  std::ranges::sort(runs);
  return runs;
}

// google/vit-base-patch16-224, which is a model of the Hub, if it is not a file.
bool may_be_hub_name(const std::string& from) {
  const std::vector<std::string> parts = split(from, '/');
  const auto plain = [](const std::string& part) {
    return !part.empty() && !part.starts_with('.') && part.find_first_of(" :@()\\") == std::string::npos;
  };
  return parts.size() == 2 && std::ranges::all_of(parts, plain) && !store::local_files().info(parts[0]);
}

enum class Wanted { kWeights, kCheckpoint };

[[noreturn]] void refuse_source(const std::string& from, const std::string& where, Wanted wanted) {
  const std::string what =
      fmt::format("`{}` {}", one_line(from), store::local_files().info(from) ? "holds no weights" : "does not exist");
  if (const std::vector<std::string> runs = runs_below(from); !runs.empty()) {
    constexpr size_t kShown = 3;
    const std::vector<std::string> first(runs.begin(), runs.begin() + static_cast<ptrdiff_t>(std::min(runs.size(), kShown)));
    throw usage_error(what, where,
                      fmt::format("name one of the runs in it: {}{}", join(first, ", "), runs.size() > kShown ? ", …" : ""));
  }
  if (wanted == Wanted::kCheckpoint) {
    throw usage_error(what, where,
                      "name a workdir (with checkpoints/), WORKDIR@STEP, or a checkpoint (…/checkpoints/step_000001000, with "
                      "COMMIT)");
  }
  if (const std::string name = other_hub_name(from); !name.empty())
    throw usage_error(what, where, fmt::format("a model of the Hugging Face Hub is named hub({})", one_line(name)));
  const std::string hub = may_be_hub_name(from) ? fmt::format("hub({}) of the Hugging Face Hub", from) : "hub(OWNER/NAME)";
  throw usage_error(
      what, where,
      fmt::format("name a workdir (with checkpoints/), a checkpoint (…/checkpoints/step_000001000, with COMMIT), a directory "
                  "with config.json and model.safetensors (or its index and files), {}, or a .safetensors, .pth or .npz file",
                  hub));
}

SourceKind kind_of(const std::string& from, const std::string& where, Wanted wanted = Wanted::kWeights) {
  store::FileSystem& files = store::local_files();
  const auto has = [&](std::string_view name) { return files.info(store::join_path(from, name)).has_value(); };
  if (has(checkpoint::kCommitFile)) return SourceKind::kCheckpoint;
  if (has(kConfig) && !weight_file_in(from).empty()) return SourceKind::kDirectory;
  if (has("checkpoints")) return SourceKind::kWorkdir;
  if (is_weight_file(from) && files.info(from)) return SourceKind::kFile;
  refuse_source(from, where, wanted);
}

std::string locate(const std::string& named, const std::string& where);

// A copy here of what is on a server: a file of weights, a directory of timm's or Hugging Face's, or a run.
std::string fetch(const std::string& url, const std::string& where) {
  if (is_weight_file(url)) return remote::fetch_weight_file(url);
  if (!checkpoint::parse_run_at_step(url)) {
    if (std::string directory = remote::fetch_weight_directory(url); !directory.empty()) return directory;
  }
  if (store::is_bucket(url)) return locate(remote::fetch_run(url), where);
  throw usage_error(fmt::format("`{}` holds no config.json", one_line(url)), where,
                    "name a .safetensors, .pth or .npz file, or a directory with config.json and model.safetensors");
}

// What the user names as a path: hub(OWNER/NAME) as its folder in the cache, what is on a server as its copy here, WORKDIR@STEP as
// the directory of that checkpoint; other paths as they are.
std::string locate(const std::string& named, const std::string& where) {
  if (store::is_remote(named)) return fetch(named, where);
  store::refuse_url(named, where);
  store::FileSystem& files = store::local_files();
  std::string from = in_hub_cache(named, where);
  const auto wanted = checkpoint::parse_run_at_step(from);
  if (!wanted || files.info(from)) return from;
  const auto steps = saved_steps(wanted->run);
  if (!steps) return from;
  std::string path = store::join_path(store::join_path(wanted->run, "checkpoints"), checkpoint::step_directory(wanted->step));
  if (files.info(path)) return path;
  throw checkpoint::no_such_step(*wanted, *steps, where);
}

// Until a save is whole, its directory has the number of the process that writes it.
bool saves_now(const std::vector<checkpoint::RejectedCheckpoint>& rejected) {
  return std::ranges::any_of(rejected, [](const checkpoint::RejectedCheckpoint& one) {
    const auto name = checkpoint::parse_directory_name(store::last_part(one.path));
    return name && name->writer && !process_is_dead(*name->writer);
  });
}

checkpoint::LoadedCheckpoint load_checkpoint(const std::string& from, SourceKind kind) {
  if (kind == SourceKind::kCheckpoint) return checkpoint::load(from);
  const std::string checkpoints = store::join_path(from, "checkpoints");
  checkpoint::LatestCheckpoint latest = checkpoint::find_latest(checkpoints);
  for (const checkpoint::RejectedCheckpoint& bad : latest.rejected) {
    log_warning(fmt::format("passed over {}: {}", bad.path, bad.reason));
  }
  if (!latest.checkpoint) {
    throw data_error("the run has no checkpoint yet", from,
                     saves_now(latest.rejected) ? "its first one is being written: try again in a moment"
                                                : "train it first; a run that trains saves as `checkpoint.every` says");
  }
  return std::move(*latest.checkpoint);
}

// The weights of a checkpoint below `scope`, under their parameters' names there.
checkpoint::WholeArrays weights_of(const checkpoint::LoadedCheckpoint& loaded, Weights which, const std::string& scope = {}) {
  const std::string prefix(prefix_of(which, loaded));
  checkpoint::WholeArrays weights = checkpoint::whole_arrays(loaded.arrays, prefix + (scope.empty() ? "" : scope + "/"));
  if (weights.views.empty()) throw data_error(fmt::format("has no parameters below `{}`", scope), loaded.path);
  return weights;
}

interop::Imported import_weights(WeightPath from, const models::Model& model, interop::ImportOptions options) {
  if (!is_weight_file(from.path)) from.path = weight_file_in(from.path);
  options.where = from.path;
  const models::TimmMap map = model.timm_map();
  const WeightFile file =
      read_weight_file(from, [&](const models::ArrayViews& types) { interop::check_timm_types(map, types, options); });
  if (file.naming == interop::Naming::kBigVision) options.resample = interop::Resample::kBilinear;
  interop::Imported imported = interop::import_timm(map, file.arrays, options);
  file.check();
  return imported;
}

void take_imported(const StateLayout& layout, interop::Imported imported, HostArrays& params) {
  for (size_t i = 0; i < layout.params; ++i) {
    const auto found = imported.parameters.find(layout.entries[i].name.substr(kParams.size()));
    if (found == imported.parameters.end()) continue;  // keeps its initial value
    TESSERA_CHECK(found->second.type == layout.entries[i].type, "{}", layout.entries[i].name);
    params[i] = store::own_bytes(std::move(found->second.data));
  }
}

// A checkpoint's weights below `scope`, which have our names and one array a block.
interop::Imported own_weights(const checkpoint::LoadedCheckpoint& checkpoint, Weights which, const std::string& scope,
                              const models::Model& model, interop::ImportOptions options) {
  options.where = checkpoint.path;
  const checkpoint::WholeArrays weights = weights_of(checkpoint, which, scope);
  models::ArrayViews views;
  for (const checkpoint::TensorView& tensor : weights.views) views[tensor.name] = {tensor.type, tensor.data};
  interop::Imported imported = interop::import_timm(models::own_map(model.timm_map()), views, options);
  checkpoint.check();
  return imported;
}

// Ours are timm's with other separators, in every family.
std::vector<std::string> classifier_scopes(const models::Model& model) {
  const auto* classifier = model.classifier();
  if (classifier == nullptr) return {};
  std::vector<std::string> scopes = classifier->heads();
  for (std::string& scope : scopes) std::replace(scope.begin(), scope.end(), '.', '/');
  return scopes;
}

// Of a directory of timm's or Hugging Face's.
interop::ModelConfig read_config(const std::string& from) {
  const auto text_of = [&](std::string_view name) {
    const std::string path = store::join_path(from, name);
    if (!store::local_files().info(path)) return std::string();
    store::verify_checksum(store::local_files(), path);
    return store::read_small_file(store::local_files(), path);
  };
  return interop::parse_model_config(text_of(kConfig), text_of(kProcessor), store::join_path(from, kConfig));
}

// The `model` section for it: timm's named variant where it is that one, or else with all that its class can be told.
std::string model_keys(const interop::ModelConfig& config, const std::string& where) {
  const models::Family& family = config.model->family();
  const std::string name = fmt::format("name = \"{}\"\n", family.name), args = config.model->timm_args();
  const models::NamedModel named = models::find_named(config.architecture);
  if (named.family == &family && named.architecture != nullptr &&
      family.from_timm(named.architecture->args, config.model->input(), where)->timm_args() == args) {
    return name + fmt::format("variant = \"{}\"\n", named.architecture->name);
  }
  return name + family.keys_from_timm(args, where);
}

// The `model` section of a run without what is as it would be anyway. A variant has defaults of its own: then all is kept.
std::string own_model_keys(const config::Section& section, const models::Model& model) {
  std::string all = section.dump();
  if (section.has("variant")) return all;
  std::set<std::string> usual;
  for (const config::KeyDoc& key : model.family().keys("")) usual.insert(key.key + " = " + key.default_value);
  std::string kept;
  for (const std::string& line : split(all, '\n')) {
    if (!line.empty() && !usual.contains(line)) kept += line + "\n";
  }
  return kept;
}

Error no_model_beside(const std::string& file, const std::string& where) {
  return usage_error(fmt::format("`{}` does not say what model it is for", one_line(file)), where,
                     "put timm's or Hugging Face's config.json beside it and name the directory, or: tessera import --from "
                     "FILE RECIPE --to DIR");
}

// The named model that has all arrays of the file, and its section of a recipe.
std::unique_ptr<models::Model> named_model_of(const std::string& path, const std::string& where, std::string& section) {
  const WeightFile file = read_weight_types({path, ""});
  const std::optional<interop::NearestModel> near = interop::nearest_model(file.arrays);
  file.check();
  if (!near || near->same < near->arrays) throw no_model_beside(path, where);
  section = fmt::format("name = \"{}\"\nvariant = \"{}\"\n", near->family, near->variant);
  std::unique_ptr<models::Model> model;
  for (const models::Family* family : models::families()) {
    if (family->name != near->family) continue;
    for (const models::NamedVariant& variant : models::named_variants(*family)) {
      if (variant.name == near->variant) model = variant.make();
    }
  }
  TESSERA_CHECK(model, "{} {}", near->family, near->variant);
  return model;
}

// Such a directory with its weights.
LoadedModel load_directory(const std::string& from) {
  interop::ModelConfig config = read_config(from);
  LoadedModel loaded;
  loaded.model = std::move(config.model);
  loaded.layout = param_layout(models::parameters(*loaded.model));
  loaded.params = empty_params(loaded.layout);
  take_imported(loaded.layout, import_weights({from, ""}, *loaded.model, {}), loaded.params);
  loaded.class_names = config.label_names;
  loaded.multi_label = config.multi_label;
  if (config.preprocessing) loaded.pp = interop::timm_pp(*config.preprocessing);
  loaded.path = from;
  return loaded;
}

LoadedModel load_own(const std::string& from, SourceKind kind, Weights weights) {
  const checkpoint::LoadedCheckpoint checkpoint = load_checkpoint(from, kind);
  RunDescription run = parse_description(checkpoint.state_json, checkpoint.path);
  config::Section recipe = config::parse_recipe(run.recipe, checkpoint.path);
  ComputeOptions options;
  recipe.bind_part(options);
  LoadedModel loaded;
  loaded.model = models::make_model(recipe.section("model"), run.input);
  loaded.layout = param_layout(models::parameters(*loaded.model));
  loaded.params = empty_params(loaded.layout);
  take_imported(loaded.layout, own_weights(checkpoint, weights, {}, *loaded.model, {}), loaded.params);
  loaded.class_names = std::move(run.class_names);
  loaded.multi_label = run.multi_label;
  loaded.pp = std::move(run.eval_pp);
  loaded.compute = parse_dtype(options.dtype);
  data::LimitOptions limits;
  config::Section section = recipe.section("data").section("limits");
  section.bind(limits);
  loaded.limits = data::read_limits(section, limits);
  loaded.path = checkpoint.path;
  loaded.recipe = std::move(run.recipe);
  loaded.run = checkpoint.run;
  loaded.step = checkpoint.step;
  loaded.tokenizers = std::move(run.data.tokenizers);
  loaded.weights = weights;
  return loaded;
}

}  // namespace

DType parse_compute(const std::string& text, const std::string& where) {
  if (text == "f32" || text == "bf16") return parse_dtype(text);
  throw usage_error(fmt::format("`{}` is no dtype to compute in", text), where, "f32 or bf16");
}

Weights parse_weights(const std::string& text, const std::string& where) {
  if (text == "raw") return Weights::kRaw;
  if (text == "average") return Weights::kAverage;
  throw usage_error(fmt::format("there are no weights `{}`", text), where, suggest_name(text, {"raw", "average"}));
}

std::string_view prefix_of(Weights weights, const checkpoint::LoadedCheckpoint& loaded) {
  if (weights == Weights::kRaw) return kParams;
  const auto first = loaded.arrays.lower_bound(kAverages);
  if (first == loaded.arrays.end() || !first->first.starts_with(kAverages)) {
    throw usage_error("the run kept no average of its weights", loaded.path,
                      "use --weights raw, or train with average = { decay = 0.9998 }");
  }
  return kAverages;
}

namespace {

SourceKind own_kind_of(const std::string& path, const std::string& where) {
  const SourceKind kind = kind_of(path, where, Wanted::kCheckpoint);
  if (kind == SourceKind::kCheckpoint || kind == SourceKind::kWorkdir) return kind;
  throw usage_error(fmt::format("`{}` is not a checkpoint of ours", path), where, "name a run's directory or a checkpoint");
}

}  // namespace

checkpoint::LoadedCheckpoint open_checkpoint(const std::string& from, const std::string& where) {
  const std::string path = locate(from, where);
  return load_checkpoint(path, own_kind_of(path, where));
}

void expect_checkpoint(const std::string& from, const std::string& where) {
  if (!store::is_remote(from)) own_kind_of(locate(from, where), where);
}

void expect_weights(const std::string& from, const std::string& where) {
  if (!store::is_remote(from)) kind_of(locate(from, where), where);
}

models::ArrayViews LoadedModel::arrays() const {
  models::ArrayViews arrays;
  for (size_t i = 0; i < layout.params; ++i) {
    arrays[layout.entries[i].name.substr(kParams.size())] = {layout.entries[i].type, params[i].data};
  }
  return arrays;
}

HostArrays empty_params(const StateLayout& layout) {
  HostArrays params;
  for (size_t i = 0; i < layout.params; ++i) {
    params.push_back(store::own_bytes(std::vector<std::byte>(static_cast<size_t>(byte_count(layout.entries[i].type)))));
  }
  return params;
}

LoadedModel load_model(const std::string& named, Weights weights, const std::string& where) {
  const std::string from = locate(named, where);
  const SourceKind kind = kind_of(from, where);
  if (kind == SourceKind::kFile) throw no_model_beside(from, where);
  if (kind != SourceKind::kDirectory) return load_own(from, kind, weights);
  if (weights == Weights::kAverage) {
    throw usage_error(fmt::format("`{}` holds one set of weights", from), "--weights", "leave it out");
  }
  return load_directory(from);
}

WeightsFacts describe_weights(const std::string& named, const std::string& where) {
  const std::string from = locate(named, where);
  const SourceKind kind = kind_of(from, where);
  WeightsFacts facts;
  std::unique_ptr<models::Model> model;
  if (kind == SourceKind::kFile) {
    model = named_model_of(from, where, facts.model);
  } else if (kind == SourceKind::kDirectory) {
    interop::ModelConfig config = read_config(from);
    facts.model = model_keys(config, store::join_path(from, kConfig));
    facts.class_names = std::move(config.label_names);
    if (config.preprocessing) facts.pp = interop::timm_pp(*config.preprocessing);
    model = std::move(config.model);
  } else {
    const checkpoint::LoadedCheckpoint checkpoint = load_checkpoint(from, kind);
    RunDescription run = parse_description(checkpoint.state_json, checkpoint.path);
    config::Section section = config::parse_recipe(run.recipe, checkpoint.path).section("model");
    model = models::make_model(section, run.input);
    facts.model = own_model_keys(section, *model);
    facts.class_names = std::move(run.class_names);
    facts.pp = std::move(run.eval_pp);
  }
  facts.classifiers = classifier_scopes(*model);
  if (facts.classifiers.empty()) {
    throw usage_error(fmt::format("`{}` holds a model that tells no classes apart: {}", one_line(named), model->describe()),
                      where);
  }
  facts.parameters = models::cost(*model).parameters;
  facts.input = model->input();
  return facts;
}

std::string preprocessing_of(const std::string& from) {
  WeightPath path = parse_weight_path(from);
  try {
    path.path = locate(path.path, "model_init.from");
    const SourceKind kind = kind_of(path.path, "model_init.from");
    if (kind == SourceKind::kFile) return "";
    if (kind != SourceKind::kDirectory) {
      const checkpoint::LoadedCheckpoint checkpoint = load_checkpoint(path.path, kind);
      return parse_description(checkpoint.state_json, checkpoint.path).eval_pp;
    }
    const interop::ModelConfig config = read_config(path.path);
    return config.preprocessing ? interop::timm_pp(*config.preprocessing) : "";
  } catch (const Error&) {
    return "";  // reading the weights says why
  }
}

std::vector<std::string> init_from(const ModelInit& init, const models::Model& model, const StateLayout& layout,
                                   HostArrays& params, bool new_classifier) {
  WeightPath from = parse_weight_path(init.from);
  from.path = locate(from.path, "model_init.from");
  const SourceKind kind = kind_of(from.path, "model_init.from");
  interop::ImportOptions options;
  options.dont_load = init.dont_load;
  if (new_classifier) options.new_classifier = classifier_scopes(model);
  interop::Imported imported;
  if (kind == SourceKind::kDirectory || kind == SourceKind::kFile) {
    imported = import_weights(from, model, options);
  } else {
    const checkpoint::LoadedCheckpoint checkpoint = load_checkpoint(from.path, kind);
    imported = own_weights(checkpoint, parse_weights(init.weights, "model_init.weights"), from.scope, model, options);
  }
  std::vector<std::string> notes = imported.notes;
  notes.push_back(
      fmt::format("{} of {} parameters are those of {}", layout.params - imported.kept.size(), layout.params, init.from));
  take_imported(layout, std::move(imported), params);
  return notes;
}

}  // namespace tessera::state
