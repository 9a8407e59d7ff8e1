// Evaluators of a recipe, and their data against training's.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "data/formats/parquet/parquet.h"
#include "data/relabelled.h"
#include "recipe/read_parts.h"

namespace tessera::recipe {
namespace {

using config::Section;

std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<ptrdiff_t>(std::min<size_t>(names.size(), 5)));
  return one_line(join(first, ", ")) + (names.size() > 5 ? ", …" : "");
}

// Labels are places in the list of classes, so that the lists must be the same.
void check_classes(const Section& section, const std::vector<std::string>& wanted, const std::vector<std::string>& found,
                   const std::string& whose) {
  if (wanted == found) return;
  const auto lacking = [](const std::vector<std::string>& names, const std::vector<std::string>& all) {
    return std::ranges::find_if(names, [&](const std::string& name) { return std::ranges::find(all, name) == all.end(); });
  };
  const std::string lists =
      fmt::format("{} classes ({}), and {} has {} ({})", found.size(), listed(found), whose, wanted.size(), listed(wanted));
  if (const auto missing = lacking(wanted, found); missing != wanted.end()) {
    section.fail("source", fmt::format("has no class `{}`: {}", one_line(*missing), lists),
                 fmt::format("every class of {} needs its folder here, even an empty class would shift the labels", whose));
  }
  section.fail("source", "has " + lists, fmt::format("take out the folders that {} does not know", whose));
}

// Makes the labels of an evaluator's data training's, by the names of the classes; classes without images here are as good as
// any. Words that training does not know are an Error, unless classes are compared by number.
void take_training_classes(const Section& section, const EvalSetting& setting, Data& opened) {
  auto& source = opened.sets.front().source;
  if (auto same = tessera::data::relabelled(source, setting.classes)) {
    source = std::move(same);
    return;
  }
  if (setting.classes_by_number) return;
  for (const std::string& name : source->class_names()) {
    if (std::ranges::find(setting.classes, name) != setting.classes.end()) continue;
    section.fail("source",
                 fmt::format("has a class that training does not: `{}`; {} classes here ({}), {} in training ({})",
                             one_line(name), source->class_names().size(), listed(source->class_names()),
                             setting.classes.size(), listed(setting.classes)),
                 "take out its images, or give it its name in training");
  }
}

void check_predictions(const Section& section, const EvalOptions& options) {
  const char* key = "predictions_format";
  if (options.predictions_format == "jsonl") return;
  if (options.predictions_format != "parquet") {
    section.fail(key, fmt::format("is \"{}\"", options.predictions_format), "jsonl or parquet");
  }
  if (!options.predictions) return;
  try {
    tessera::data::parquet_api();
  } catch (const Error& error) {
    throw data_error(error.message(), section.place(key), error.help());
  }
}

void check_multi_label(const Section& section, const EvalSetting& setting, const Data& opened) {
  const bool several = opened.source().multi_label();
  if (setting.multi_label.value_or(several) == several) return;
  section.fail("source",
               several ? "has several labels an image, and training's data has one"
                       : "has one label an image, and training's data has any number",
               several ? "label=… here, or labels=… in data.source" : "labels=… here, as in data.source");
}

// Here where the source knows, else when the examples have been read.
void check_class_sizes(const tessera::data::Source& source, int64_t least, const std::string& where) {
  const auto sizes = least > 0 ? source.class_sizes() : std::nullopt;
  if (!sizes) return;
  const auto fewest = std::ranges::min_element(*sizes);
  if (fewest == sizes->end() || *fewest >= least) return;
  const std::string& name = source.class_names()[static_cast<size_t>(fewest - sizes->begin())];
  throw data_error(fmt::format("the class `{}` has {} examples, too few for {} shots", name, *fewest, least), where,
                   "ask for fewer shots, or give a larger training set");
}

// Rows without an image are padded, so that any batch will do: rounded up to what the mesh can cut.
int64_t eval_batch(const Section& section, const EvalPlan& plan, const EvalSetting& setting) {
  int64_t largest = 0;
  for (const EvalSet& set : plan.sets) largest = std::max(largest, set.size());
  const int64_t parts = mesh::batch_parts(setting.mesh) * setting.processes.meshes(), most = std::min(setting.batch, largest);
  const int64_t batch = plan.options.batch.value_or((most + parts - 1) / parts * parts);
  if (batch < 1) section.fail("batch", fmt::format("must be at least 1, and is {}", batch));
  check_batch(batch, 1, setting.mesh, section.place("batch"), setting.processes);
  return batch;
}

}  // namespace

void set_captions(const objectives::Objective& objective, const tessera::data::Pp& pp, EvalSetting& setting) {
  if (objective.inputs().tokens.empty()) return;
  setting.captions = objective.inputs().tokens[0];
  for (const tessera::data::TokenField& field : pp.token_fields()) {
    if (field.name != setting.captions->name) continue;
    setting.encode = [field](const std::string& text) {
      std::vector<int32_t> ids(static_cast<size_t>(field.length));
      field.encoder->encode(text, ids.data());
      return ids;
    };
  }
}

EvalPlan read_eval(const std::string& name, Section section, const EvalSetting& setting) {
  EvalPlan plan;
  plan.name = name;
  Section data_section = section.section("data");
  plan.sets.push_back({open_evaluation_data(data_section, setting.held_out)});
  Data& own = plan.sets[0].data;
  plan.options.type = evaluators::usual_evaluator(own.inputs());
  section.bind_part(plan.options);
  if (setting.predictions) plan.options.predictions = true;
  check_predictions(section, plan.options);
  const auto id = [source = own.sets.front().source](int64_t sample) { return source->id(sample); };
  const auto make = [&] {
    plan.evaluator =
        evaluators::make_evaluator(section, {own.inputs(), own.source().class_names(), setting.captions, setting.encode,
                                             own.source().size(), id, setting.objective, plan.options.predictions});
  };
  make();
  check_input(data_section, *setting.model, own, plan.evaluator->cuts_crops());
  plan.evaluator->check(*setting.model, section);
  if (plan.evaluator->inputs(0).labels) {
    if (own.source().class_names().empty())
      data_section.fail("source", fmt::format("has no labels, which {} needs", plan.options.type));
    // A classifier's labels are training's.
    const bool classifies = setting.model->classifier() != nullptr;
    if (classifies) check_multi_label(data_section, setting, own);
    if (classifies && !setting.classes.empty() && own.source().class_names() != setting.classes) {
      take_training_classes(data_section, setting, own);
      make();
    }
  }
  const std::vector<std::string> classes = own.source().class_names();
  for (const std::string& key : plan.evaluator->further_sets()) {
    Section further = section.section(key);
    plan.sets.push_back({open_data(further, tessera::data::PpUse::kEval)});
    check_input(further, *setting.model, plan.sets.back().data);
    const auto& source = plan.sets.back().data.source();
    check_classes(further, classes, source.class_names(), data_section.path());
    check_class_sizes(source, plan.evaluator->least_of_a_class(plan.sets.size() - 1), section.place(key));
  }
  if (const auto texts = static_cast<int64_t>(plan.evaluator->texts().size()); texts > 0) {
    const int64_t length = plan.evaluator->inputs(plan.sets.size()).tokens.at(0).length;
    plan.sets.emplace_back().texts = texts / length;
  }
  const int64_t batch = eval_batch(section, plan, setting);
  for (EvalSet& set : plan.sets) {
    set.batch = batch;
    set.processes = setting.processes;
    if (set.texts == 0) set.data.loader(batch, 0);  // so that what takes too much memory is known at once
  }
  plan.every = steps_of(section, "every", plan.options.every, setting.length);
  return plan;
}

std::string inference_pp(const Recipe& recipe) {
  if (recipe.evals.empty()) return "";
  const EvalPlan& first = recipe.evals.front();
  const Data& opened = first.sets.front().data;
  const std::string& chain = opened.options.pp;
  if (!first.evaluator->cuts_crops()) return chain;
  const std::string crop = fmt::format("central_crop({}, {})", recipe.model->input().width, recipe.model->input().height);
  // Values are scaled last.
  const size_t last = opened.pp().scales_values() ? chain.rfind('|') : std::string::npos;
  return last == std::string::npos ? chain + " | " + crop : chain.substr(0, last) + "| " + crop + " " + chain.substr(last);
}

}  // namespace tessera::recipe
