#include "inference/timm_directory.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/text/call.h"
#include "checkpoint/formats/npz.h"
#include "checkpoint/manager.h"
#include "data/transform/pp.h"
#include "interop/image_processor.h"
#include "interop/model_config.h"
#include "interop/timm_import.h"
#include "state/progress.h"

namespace tessera::inference {
namespace {

// The resize of a chain: to (width, height), or of the shorter side where `height` is 0; and how a crop rounds.
struct Resizing {
  bool found = false, squash = false, crop_down = false;
  int64_t width = 0, height = 0;
  std::string interpolation = "bilinear";
};

Resizing find_resize(const std::vector<Call>& chain) {
  Resizing out;
  for (const Call& call : chain) {
    if (call.name == "central_crop") out.crop_down = CallReader(call).text("library", "") == "tensorflow";
    if (call.name != "resize" && call.name != "resize_small") continue;
    CallReader reader(call);
    out.found = true;
    out.squash = call.name == "resize";
    out.width = out.height = reader.integer("size");
    if (out.squash) out.height = reader.integer("h", out.width);
    out.interpolation = reader.text("interpolation", "bilinear");
  }
  return out;
}

// The pixels' scale is kept as f32; six decimals bring back the number that was written.
double decimals(double value) {
  const double rounded = std::round(value * 1e6) / 1e6;
  return std::abs(rounded - value) <= 1e-6 * std::abs(value) ? rounded : value;
}

void set_values(const data::PixelScale& affine, interop::TimmPreprocessing& out) {
  out.mean.resize(static_cast<size_t>(affine.channels()));
  out.std.resize(out.mean.size());
  for (size_t c = 0; c < out.mean.size(); ++c) {
    const double scale = affine.scale[c], offset = affine.offset[c];
    out.std[c] = decimals(1 / (255 * scale));
    out.mean[c] = decimals(-offset / (255 * scale));
  }
}

void set_size(const Resizing& resize, interop::TimmPreprocessing& out, std::vector<std::string>& notes) {
  out.crop_mode = resize.squash ? "squash" : "center";
  out.crop_down = resize.crop_down;
  if (!resize.found) {
    out.crop_pct = 1;
    notes.push_back("the preprocessing does not resize, and timm always does: give it images of the model's size");
    return;
  }
  out.interpolation = resize.interpolation;
  const bool by_width = out.width < out.height;
  out.crop_pct = by_width ? interop::crop_share(out.width, resize.width) : interop::crop_share(out.height, resize.height);
  const int64_t width = out.resized(out.width), height = out.resized(out.height);
  if (resize.squash && (width != resize.width || height != resize.height)) {
    notes.push_back(fmt::format("timm resizes both sides by one factor: to {} x {}, where the run has {} x {}", width, height,
                                resize.width, resize.height));
  }
  const bool even = resize.squash && (resize.width - out.width) % 2 == 0 && (resize.height - out.height) % 2 == 0;
  if (resize.crop_down && !even)
    notes.push_back(
        "timm's crop lies a pixel further down or right in some images: it rounds half a pixel to even, the run down");
}

std::vector<checkpoint::TensorView> tensors_of(const models::Arrays& arrays) {
  std::vector<checkpoint::TensorView> tensors;
  for (const auto& [name, array] : arrays) tensors.push_back({name, array.type, array.data});
  return tensors;
}

void refuse_full(const std::string& directory) {
  store::FileSystem& files = store::local_files();
  const auto info = files.info(directory);
  if (!info || (info->directory && files.list(directory).empty())) return;
  throw usage_error(fmt::format("`{}` is there already and is not empty", directory), "--to", "name a new directory");
}

}  // namespace

interop::TimmPreprocessing to_timm_preprocessing(const std::string& pp, const models::InputShape& input,
                                                 std::vector<std::string>& notes) {
  interop::TimmPreprocessing out;
  out.channels = input.channels, out.height = input.height, out.width = input.width;
  if (pp.empty()) {
    notes.push_back("the run has no evaluator, so that its preprocessing is not known: config.json has timm's defaults");
    return out;
  }
  const data::Pp chain(pp, data::PpUse::kEval, "preprocessing");
  set_values(chain.pixel_scale(), out);
  set_size(find_resize(parse_chain(pp, "preprocessing")), out, notes);
  return out;
}

std::vector<std::string> write_timm_directory(const state::LoadedModel& model, const std::string& directory,
                                              Existing existing) {
  const auto* classifier = model.model->classifier();
  if (classifier == nullptr) {
    throw usage_error(fmt::format("timm has no such model: {}", model.model->describe()), model.path,
                      "export with --format big_vision or --plain");
  }
  std::vector<std::string> notes;
  const interop::TimmPreprocessing preprocessing = to_timm_preprocessing(model.pp, classifier->input(), notes);
  const std::string config = interop::write_timm_config(*classifier, preprocessing, model.class_names, model.multi_label);
  const models::Arrays arrays = interop::export_timm(classifier->timm_map(), model.arrays());
  write_safetensors_directory(directory, existing, tensors_of(arrays), {{"config.json", config}}, export_record(model, "timm"));
  return notes;
}

std::vector<std::string> write_hugging_face_directory(const state::LoadedModel& model, const std::string& directory,
                                                      Existing existing) {
  const models::Arrays arrays = interop::export_as(*model.model, interop::Naming::kHuggingFace, model.arrays());
  std::vector<std::string> notes;
  const interop::TimmPreprocessing preprocessing = to_timm_preprocessing(model.pp, model.model->input(), notes);
  const std::string processor = interop::hugging_face_preprocessor(preprocessing, notes);
  write_safetensors_directory(
      directory, existing, tensors_of(arrays),
      {{"preprocessor_config.json", processor},
       {"config.json", interop::hugging_face_config(*model.model, model.class_names, model.multi_label)}},
      export_record(model, "hugging_face"));
  return notes;
}

void write_big_vision_file(const state::LoadedModel& model, const std::string& path, Existing existing) {
  if (!path.ends_with(".npz")) {
    throw usage_error(fmt::format("`{}` does not name an .npz file", path), "--to", "name one, as weights.npz");
  }
  store::FileSystem& files = store::local_files();
  const std::string record = export_record(model, "big_vision");
  check_export_file(files, path, existing, record);
  std::vector<checkpoint::NpzArray> arrays;
  for (auto& [name, array] : interop::export_as(*model.model, interop::Naming::kBigVision, model.arrays())) {
    arrays.push_back({"params/" + name, array.type, array.data});
  }
  const auto write = [&](const std::string& temporary) { checkpoint::write_npz(temporary, arrays); };
  write_export_file(files, path, existing, write, record);
}

std::string write_imported(const recipe::Recipe& recipe, const std::string& from, const std::string& directory,
                           std::vector<std::string>& notes) {
  refuse_full(directory);
  const state::StateLayout layout = state::param_layout(recipe.specs);
  state::HostArrays params = state::empty_params(layout);
  for (std::string& note : state::init_from({.from = from}, *recipe.model, layout, params, /*new_classifier=*/false)) {
    notes.push_back(std::move(note));
  }
  checkpoint::Snapshot snapshot;
  snapshot.add(state::split_blocks(layout, params));
  snapshot.state_json = state::to_json(state::Progress{}, {.recipe = recipe.text,
                                                           .input = recipe.model->input(),
                                                           .class_names = recipe.class_names,
                                                           .eval_pp = recipe::inference_pp(recipe),
                                                           .multi_label = recipe.data.source().multi_label()});
  const std::string checkpoints = store::join_path(directory, "checkpoints");
  store::local_files().make_directories(checkpoints);
  return checkpoint::write_checkpoint(store::local_files(), checkpoints, snapshot);
}

}  // namespace tessera::inference
