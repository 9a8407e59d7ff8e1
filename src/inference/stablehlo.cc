#include "inference/stablehlo.h"

#include <fmt/format.h>

#include <functional>
#include <vector>

#include "base/error.h"
#include "base/text/json.h"
#include "config/section.h"
#include "data/transform/pp.h"
#include "inference/row_reader.h"
#include "inference/tracer.h"
#include "inference/training_data.h"
#include "models/image_text/captioner.h"
#include "models/image_text/image_text.h"

namespace tessera::inference {
namespace {

using ir::Value;
using ir::Values;

struct Array {
  std::string name;
  TensorType type;
};

struct ExportedProgram {
  std::string name;
  std::vector<Array> inputs, results;
  std::string text;
};

nlohmann::ordered_json described(const Array& array) {
  return {{"name", array.name}, {"dtype", dtype_name(array.type.dtype)}, {"shape", array.type.dims}};
}

// Traces programs over the same parameters.
class Exporter {
 public:
  Exporter(const state::LoadedModel& model, const train::ProgramOptions& options) : model_(model), options_(options) {}

  // `body` makes the one result of the inputs. Gives its type.
  TensorType add(const std::string& name, const std::vector<Array>& inputs, const std::string& result,
                 const std::function<Value(const nn::Scope&, const Values&)>& body) {
    Tracer tracer(model_.layout, options_);
    Values values;
    for (const Array& input : inputs) values.push_back(tracer.argument(input.type, input.name));
    TensorType type = tracer.apply([&](const nn::Scope& scope) -> Values { return {body(scope, values)}; }).front().type();
    programs_.push_back({name, inputs, {{result, type}}, tracer.program(name).text});
    return type;
  }
  Value pixels(Value images) const { return train::normalize(images, options_.pixels); }
  Array images() const { return {"images", train::image_batch(*model_.model, options_.batch)}; }
  Array tokens(const std::string& name) const { return {name, {DType::kI32, {options_.batch, model_.model->input().tokens}}}; }
  const std::vector<ExportedProgram>& programs() const { return programs_; }

 private:
  const state::LoadedModel& model_;
  const train::ProgramOptions& options_;
  std::vector<ExportedProgram> programs_;
};

void add_programs(Exporter& to, const models::Classifier& model) {
  to.add("model", {to.images()}, "logits",
         [&](const nn::Scope& scope, const Values& in) { return model.logits(scope, to.pixels(in[0])); });
}

void add_programs(Exporter& to, const models::ImageText& model) {
  const TensorType images =
      to.add("image_embeddings", {to.images()}, "embeddings",
             [&](const nn::Scope& scope, const Values& in) { return model.embed_images(scope, to.pixels(in[0])); });
  const TensorType texts = to.add("text_embeddings", {to.tokens("texts")}, "embeddings",
                                  [&](const nn::Scope& scope, const Values& in) { return model.embed_texts(scope, in[0]); });
  to.add("similarities", {{"images", images}, {"texts", texts}}, "similarities",
         [&](const nn::Scope& scope, const Values& in) { return models::similarities(model, scope, in[0], in[1]); });
}

void add_programs(Exporter& to, const models::Captioner& model) {
  const TensorType encoded = to.add("encoder", {to.images()}, "encoded", [&](const nn::Scope& scope, const Values& in) {
    return model.encode(scope, to.pixels(in[0]));
  });
  to.add("decoder", {{"encoded", encoded}, to.tokens("captions")}, "logits",
         [&](const nn::Scope& scope, const Values& in) { return model.decode(scope, in[0], in[1]); });
}

std::string signature(const state::LoadedModel& model, const std::vector<ExportedProgram>& programs) {
  nlohmann::ordered_json json{{"weights", "model.safetensors"}, {"programs", nlohmann::ordered_json::array()}};
  for (const ExportedProgram& program : programs) {
    nlohmann::ordered_json one{{"file", program.name + ".mlir"}, {"function", "main"}};
    for (const state::StateEntry& entry : model.layout.entries)
      one["arguments"].push_back(described({state::param_name(entry), entry.type}));
    for (const Array& input : program.inputs) one["arguments"].push_back(described(input));
    for (const Array& result : program.results) one["results"].push_back(described(result));
    json["programs"].push_back(std::move(one));
  }
  json["preprocessing"] = model.pp;
  if (model.model->classifier() != nullptr) {
    json["multi_label"] = model.multi_label;
    json["classes"] = model.class_names;
  } else if (!model.recipe.empty()) {
    // Its tokenize(…) says how texts become tokens.
    TrainingData training;
    config::Section recipe = config::parse_recipe(model.recipe, model.path);
    config::Section data_section = recipe.section("data");
    data_section.bind_part(training);
    json["training_preprocessing"] = training.pp;
  }
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

void write_stablehlo_directory(const state::LoadedModel& model, const std::string& directory, int64_t batch,
                               Existing existing) {
  if (batch < 1) throw usage_error(fmt::format("is {}", batch), "--batch", "the images of one call, at least 1");
  if (model.pp.empty()) {
    throw usage_error("the preprocessing is not known, and the program holds a part of it", model.path,
                      "export from a run with an evaluator, or from a directory of timm's or Hugging Face's");
  }
  const data::Pp pp(model.pp, data::PpUse::kEval, "preprocessing");
  check_size(pp, model.model->input());
  const train::ProgramOptions options{.batch = batch, .pixels = pp.pixel_scale(), .compute = model.compute};
  Exporter exporter(model, options);
  if (const auto* classifier = model.model->classifier()) add_programs(exporter, *classifier);
  if (const auto* towers = model.model->image_text()) add_programs(exporter, *towers);
  if (const auto* captioner = model.model->captioner()) add_programs(exporter, *captioner);

  std::vector<checkpoint::TensorView> weights;
  for (size_t i = 0; i < model.layout.entries.size(); ++i) {
    const state::StateEntry& entry = model.layout.entries[i];
    weights.push_back({state::param_name(entry), entry.type, model.params[i].data});
  }
  std::vector<std::pair<std::string, std::string>> files = {{"signature.json", signature(model, exporter.programs())}};
  for (const ExportedProgram& program : exporter.programs()) files.emplace_back(program.name + ".mlir", program.text);
  write_safetensors_directory(directory, existing, weights, files, export_record(model, "stablehlo"));
}

}  // namespace tessera::inference
