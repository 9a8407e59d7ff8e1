#pragma once
// timm's transforms (timm/data/transforms_factory.py) as chains of a recipe.

#include <cstdint>
#include <string>
#include <vector>

#include "recipe/translate/arguments.h"

namespace tessera::translate {

// What timm's weights of a model were trained and are evaluated with.
struct TimmInput {
  const char *name, *tag;  // tag: of the weights that timm takes for the name alone; empty: none
  int64_t size;            // pixels a side
  double crop;             // the share of the picture that the evaluation's crop has
  const char *interpolation, *mean, *std;
};
// Null where timm has no model of this name here.
const TimmInput* find_timm_input(const std::string& name);
std::vector<std::string> timm_input_names();

class TimmChains {
 public:
  // `args` must outlive it. `size`: pixels a side that the model takes.
  TimmChains(const Arguments& args, const TimmInput& input, int64_t size) : args_(args), input_(input), size_(size) {}

  // data.pp: transforms_imagenet_train. Usage Errors for arguments without a counterpart.
  std::string train() const;
  // eval.val.data.pp: transforms_imagenet_eval.
  std::string eval() const;

 private:
  // One number is for all channels; `own` where the argument is not given.
  std::string channels(const std::string& name, const char* own) const;
  std::string mean() const;
  std::string normalise() const;
  int64_t in_channels() const;
  std::string train_interpolation() const;
  std::vector<std::string> crop() const;
  std::string policy() const;
  std::string jitter() const;
  std::string eval_interpolation() const;

  const Arguments& args_;
  TimmInput input_;
  int64_t size_;
};

}  // namespace tessera::translate
