#pragma once
// Hugging Face's image processors, as preprocessor_config.json describes them.

#include <string>
#include <string_view>
#include <vector>

#include "interop/timm_config.h"

namespace tessera::interop {

// What the processor does, with its library's defaults where the file is silent (transformers 5): ViTImageProcessor, which is
// also the one without a name, DeiTImageProcessor or ConvNextImageProcessor, by whichever backend. Sizes are of both sides or
// of the shorter, with or without a centre crop. A data error names `where` and the entry that asks for something else.
TimmPreprocessing parse_processor(std::string_view json, const std::string& where);

// preprocessor_config.json: Hugging Face's ViTImageProcessor, which resizes to the model's size and crops nothing. `notes` gets
// a line where the run's preprocessing is another.
std::string hugging_face_preprocessor(const TimmPreprocessing& preprocessing, std::vector<std::string>& notes);

}  // namespace tessera::interop
