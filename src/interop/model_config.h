#pragma once
// Our models in other libraries' terms: Hugging Face's ViTForImageClassification, big_vision's ViT, CapPa and two towers.

#include <string>
#include <vector>

#include "interop/naming.h"
#include "interop/timm_config.h"
#include "models/model.h"

namespace tessera::interop {

// The model's parameters (ours, f32) under the names of another library than timm, in its layout. A usage Error when the
// library has no such model: it names the option that stands in the way.
models::Arrays export_as(const models::Model& model, Naming naming, const models::ArrayViews& parameters);

// config.json of a ViT that export_as takes. Without names, classes are LABEL_0, … as Hugging Face has it.
std::string hugging_face_config(const models::Model& model, const std::vector<std::string>& label_names,
                                bool multi_label = false);

// A directory's config.json, timm's or that of a ViT of Hugging Face's; of the latter `preprocessor` is its
// preprocessor_config.json, empty where there is none: of its processors ViT's, DeiT's and ConvNeXt's are read, with their
// defaults. Data errors, also for other models of Hugging Face's and other processors, name `where` and the entry.
ModelConfig parse_model_config(std::string_view json, std::string_view preprocessor, const std::string& where);

}  // namespace tessera::interop
