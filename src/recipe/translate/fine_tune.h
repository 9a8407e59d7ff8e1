#pragma once
// A recipe that fine-tunes weights on a user's images.

#include <string>

#include "recipe/translate/arguments.h"

namespace tessera::translate {

struct FineTuneOptions {
  std::string data;   // a folder of class folders, one with train/ and val/ of these, or a source: "csv(labels.csv)"
  std::string from;   // weights, as `--from` of every command (state/model_source.h)
  std::string valid;  // a folder, a source, or what share of `data` is held out: "10 %"; empty: val/ of the folder, else 20 %
};

// Opens the data, for its classes and their number, and reads the configuration beside the weights. The recipe, a function of these
// alone:
//  - the model is the weights', at their image size, with a head of the data's classes: a new one, unless the classes are those
//    of the weights;
//  - images are evaluated as the weights' were; for training they are cropped at random and mirrored, and scaled as those were;
//  - the head learns alone for the first tenth; then the body too, each layer at 0.75 times the rate of the one after it (BEiT's
//    layer decay, as timm's), both over one cycle (fastai's fine_tune). The peak of the body's rate is 1e-3 for a million
//    parameters and less, 2e-4 for ViT-S, 1e-4 for ViT-B; the head's is ten times that;
//  - small sets run for more epochs, so that at least 200 steps are made.
// Usage Errors for data without two classes and for weights that do not say what model they are.
Translation fine_tune(const FineTuneOptions& options);

}  // namespace tessera::translate
