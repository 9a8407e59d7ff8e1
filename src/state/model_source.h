#pragma once
// Weights from wherever they lie: a run, a checkpoint of one, a directory of timm's or Hugging Face's, or its cache.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "image/codec/decode.h"
#include "interop/timm_config.h"
#include "models/model.h"
#include "state/state.h"

namespace tessera::state {

// Weights to begin with: `model_init` of a recipe.
struct ModelInit {
  std::string from;
  std::string weights = "raw";
  std::vector<std::string> dont_load;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("from", from,
          "a workdir, WORKDIR@STEP, a checkpoint directory, a timm or Hugging Face directory, a .safetensors or .pth file, "
          "hub(OWNER/NAME) from the Hugging Face cache, or a .npz of big_vision's; PATH:SCOPE takes what is below a scope, as "
          "siglip.npz:params/img");
    field("weights", weights, "of a run: raw, or average where it kept one");
    field("dont_load", dont_load, "patterns of parameters that keep their initial value, as head/.*");
  }
};

// Which weights of a run.
enum class Weights { kRaw, kAverage };
// "raw" or "average"; anything else is a usage Error at `where`.
Weights parse_weights(const std::string& text, const std::string& where);
// "f32" or "bf16", of activations and products; anything else is a usage Error at `where`.
DType parse_compute(const std::string& text, const std::string& where);
// The prefix of these arrays' names in a checkpoint. Throws a usage Error where the checkpoint has no such arrays.
std::string_view prefix_of(Weights weights, const checkpoint::LoadedCheckpoint& loaded);

// The checkpoint at `from`, or the newest whole one of a workdir, or that of WORKDIR@STEP. A directory or file of timm's is a
// usage Error at `where`.
checkpoint::LoadedCheckpoint open_checkpoint(const std::string& from, const std::string& where = "--from");
// Throws a usage Error at `where` unless `from` names what open_checkpoint() takes. Reads no array, and asks no server.
void expect_checkpoint(const std::string& from, const std::string& where);
// The same of weights of any kind.
void expect_weights(const std::string& from, const std::string& where);

// A model with its weights, and all that is needed to use it on images.
struct LoadedModel {
  std::unique_ptr<models::Model> model;
  StateLayout layout;                    // parameters alone
  HostArrays params;                     // in the layout's order
  std::vector<std::string> class_names;  // by index; empty where the file has none
  bool multi_label = false;              // trained on images with any number of labels
  std::string pp;                        // preprocessing for evaluation; empty when it is not known
  DType compute = DType::kF32;
  image::DecodeLimits limits;  // of each image: those of the run's training data
  std::string path;            // the directory that the weights were read from
  std::string recipe;          // of the run, as it was resolved; empty where the weights are none of a run's
  std::string run;             // whose they are, as checkpoint::LoadedCheckpoint::run
  int64_t step = 0;            // of the run
  std::string tokenizers;      // of its training data (DataIdentity)
  Weights weights = Weights::kRaw;

  // The parameters by the model's names; they borrow `params`.
  models::ArrayViews arrays() const;
};

// `from` is a checkpoint directory (…/checkpoints/step_000001000), WORKDIR@1000 for that, a workdir (its newest whole checkpoint
// is taken), hub(OWNER/NAME) (state/hub_cache.h), or a directory with config.json and model.safetensors of timm's or of a ViT of
// Hugging Face's. Anything else is a usage Error that says what was looked for; so is an average that the source has not.
LoadedModel load_model(const std::string& from, Weights weights = Weights::kRaw, const std::string& where = "--from");

// What the configuration beside weights says; their arrays are not read.
struct WeightsFacts {
  std::string model;      // the `model` section of a recipe, a TOML line a key
  double parameters = 0;  // elements
  models::InputShape input;
  std::vector<std::string> classifiers;  // scopes of the layers that make logits: "head"
  std::vector<std::string> class_names;  // by index; empty where they are not known
  std::string pp;                        // as LoadedModel::pp
};
// Takes what load_model() takes, with its Errors, and a file of weights that has the arrays of a named model. Throws a usage
// Error also for a model that is no classifier.
WeightsFacts describe_weights(const std::string& from, const std::string& where = "--from");

// The preprocessing for evaluation that comes with weights, as LoadedModel::pp; empty where none does, or `from` (with a scope,
// as in model_init) is no source of weights.
std::string preprocessing_of(const std::string& from);

// Copies the weights that model_init names into `params` (the parameters' initial values, in the layout's order). Adapts
// positions, patches and input channels. With `new_classifier`, a classifier that the source lacks, or has for other classes,
// keeps its initial values. Gives notes for the user: what was adapted or kept, and how many parameters were taken. One data
// Error lists all that does not fit.
std::vector<std::string> init_from(const ModelInit& init, const models::Model& model, const StateLayout& layout,
                                   HostArrays& params, bool new_classifier = true);

// Zeros for every parameter of the layout.
HostArrays empty_params(const StateLayout& layout);

}  // namespace tessera::state
