#include "inference/stablehlo.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/transform/pp.h"
#include "inference/row_reader.h"
#include "train/step/step.h"
#include "train/step/trace.h"

namespace tessera::inference {
namespace {

nlohmann::ordered_json described(const std::string& name, const TensorType& type) {
  return {{"name", name}, {"dtype", dtype_name(type.dtype)}, {"shape", type.dims}};
}

std::string signature(const state::LoadedModel& model, const TensorType& images) {
  nlohmann::ordered_json json{{"program", "model.mlir"}, {"function", "main"}, {"weights", "model.safetensors"}};
  for (const state::StateEntry& entry : model.layout.entries) {
    json["arguments"].push_back(described(state::param_name(entry), entry.type));
  }
  json["arguments"].push_back(described("images", images));
  json["results"].push_back(described("logits", {DType::kF32, {images.dims[0], model.model->input().classes}}));
  json["preprocessing"] = model.pp;
  json["multi_label"] = model.multi_label;
  json["classes"] = model.class_names;
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

void write_stablehlo_directory(const state::LoadedModel& model, const std::string& directory, int64_t batch,
                               Existing existing) {
  if (model.model->classifier() == nullptr) {
    throw usage_error("the model is no classifier, so that there is no program from an image to its answer", model.path,
                      "export with --format big_vision or --plain");
  }
  if (batch < 1) throw usage_error(fmt::format("is {}", batch), "--batch", "the images of one call, at least 1");
  if (model.pp.empty()) {
    throw usage_error("the preprocessing is not known, and the program holds a part of it", model.path,
                      "export from a run with an evaluator, or from a directory of timm's or Hugging Face's");
  }
  const data::Pp pp(model.pp, data::PpUse::kEval, "preprocessing");
  check_size(pp, model.model->input());
  const train::Program program = train::predict_program(*model.model, model.layout,
                                                        {.batch = batch, .pixels = pp.pixel_scale(), .compute = model.compute});
  std::vector<checkpoint::TensorView> weights;
  for (size_t i = 0; i < model.layout.entries.size(); ++i) {
    const state::StateEntry& entry = model.layout.entries[i];
    weights.push_back({state::param_name(entry), entry.type, model.params[i].data});
  }
  write_safetensors_directory(
      directory, existing, weights,
      {{"signature.json", signature(model, train::image_batch(*model.model, batch))}, {"model.mlir", program.text}});
}

}  // namespace tessera::inference
