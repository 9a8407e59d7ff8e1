#pragma once
// Whole networks. A model is made from its section of the recipe and from what the data says about its input; it is then traced
// into a graph as often as needed (training step, evaluation, initialisation).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/section.h"
#include "ir/graph.h"
#include "models/family.h"
#include "models/timm_names.h"
#include "nn/scope.h"

namespace tessera::models {

// What a model takes: images, and where it reads captions their length in tokens and the number of their ids; and the classes
// it tells apart. 0 = not known (yet): the recipe's `model` section or the data says.
struct InputShape {
  int64_t height = 0, width = 0, channels = 3;
  int64_t classes = 0;
  int64_t tokens = 0, vocabulary = 0;
  bool operator==(const InputShape&) const = default;
};

// Parameters whose whole name matches `pattern` belong to layer `first` of the network; block b of a stacked one to `first` +
// b.
struct LayerRule {
  std::string pattern;
  int64_t first = 0;
};

class Classifier;
class Captioner;        // models/image_text/captioner.h
class ImageText;        // models/image_text/image_text.h
struct ViTConfig;       // models/vit/vit_options.h
struct CapPaConfig;     // models/image_text/cappa.h
struct TwoTowerConfig;  // models/image_text/two_tower.h

class Model {
 public:
  virtual ~Model() = default;

  // The same model by an interface that asks more of it; null where it does not have that.
  virtual const Classifier* classifier() const { return nullptr; }
  virtual const Captioner* captioner() const { return nullptr; }
  virtual const ImageText* image_text() const { return nullptr; }
  // The options of a network that other libraries have too; null for other networks.
  virtual const ViTConfig* vit_config() const { return nullptr; }
  virtual const CapPaConfig* cappa_config() const { return nullptr; }
  virtual const TwoTowerConfig* two_tower_config() const { return nullptr; }

  // The features of an image: images [batch, height, width, channels], normalised, of any float type -> [batch, features].
  virtual ir::Value features(const nn::Scope& scope, ir::Value images) const = 0;
  // All of it on one example of zeros: asks for every parameter. Gives its answer.
  virtual ir::Value trace(const nn::Scope& scope) const = 0;

  // All fields known that it has a use for.
  virtual const InputShape& input() const = 0;
  // Layers from the input (0), as timm's group_matcher has them: first match wins, and what matches none (the head) is a layer
  // of its own after the last. Empty where the model has no such order.
  virtual std::vector<LayerRule> layers() const { return {}; }
  // Training cuts the rows of a batch into so many equal parts.
  virtual int64_t batch_parts() const { return 1; }
  virtual const Family& family() const = 0;
  // How its parameters stand in files of timm's layout: timm's own where it has the model.
  virtual TimmMap timm_map() const = 0;
  // One line for logs: "ViT 384 x 12, 6 heads, patch 16, 224 x 224, 1000 classes".
  virtual std::string describe() const = 0;
};

// A model that tells classes apart.
class Classifier : public Model {
 public:
  const Classifier* classifier() const final { return this; }
  // [batch, classes], f32, of images as above.
  virtual ir::Value logits(const nn::Scope& scope, ir::Value images) const = 0;
  // The same of each head, where it has several (DeiT's: the class token's and the distillation token's): logits() is their
  // mean.
  virtual ir::Values head_logits(const nn::Scope& scope, ir::Value images) const { return {logits(scope, images)}; }
  // timm's names of these layers, in the same order.
  virtual std::vector<std::string> heads() const { return {family().classifier}; }
  ir::Value trace(const nn::Scope& scope) const override;
  // Arguments of timm's class that give this model, as JSON: all that models of its family differ in, and no others (image
  // size, channels, classes and dropout are none of them). A usage Error when timm's class can't be this model.
  virtual std::string timm_args() const = 0;
};

// Images of zeros, f32, as `input` says.
ir::Value blank_images(const InputShape& input, int64_t batch = 1);

// The model that the section names, with `data` filling in what the section leaves open. An unknown name is a usage error with
// the nearest one.
std::unique_ptr<Model> make_model(config::Section section, const InputShape& data = {});
// The names of models.def.
std::vector<std::string> model_names();

// The parameters of a model in the order of tracing; traces it once, in a graph of its own.
std::vector<nn::ParamSpec> parameters(const Model& model);

// The layer of each parameter by the model's layers(); empty where it has none.
std::vector<int64_t> parameter_layers(const Model& model, const std::vector<nn::ParamSpec>& specs);

// What a model costs: elements of its parameters, buffers left out, and the operations of its products and convolutions on one
// example, forward (ir/program/flops.h). Traces it.
struct ModelCost {
  int64_t parameters = 0;
  double flops = 0;
};
ModelCost cost(const Model& model);

}  // namespace tessera::models
