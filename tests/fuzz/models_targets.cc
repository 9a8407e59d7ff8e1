#include "data/transform/pp.h"
#include "fuzz/targets.h"
#include "interop/image_processor.h"
#include "interop/model_config.h"

namespace tessera::fuzz {
namespace {

// A directory's config.json and, behind a zero byte, its preprocessor_config.json.
bool model_config(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string_view processor = end < bytes.size() ? bytes.substr(end + 1) : std::string_view();
  return parses([&] {
    const interop::ModelConfig config = interop::parse_model_config(bytes.substr(0, end), processor, "fuzz");
    const models::InputShape& input = config.model->input();
    TESSERA_CHECK(input.height > 0 && input.width > 0 && input.channels > 0 && input.classes >= 0);
    TESSERA_CHECK(config.label_names.empty() || std::ssize(config.label_names) == input.classes);
    TESSERA_CHECK(!config.model->describe().empty());
    if (!config.preprocessing) return true;
    const data::Pp chain(interop::timm_pp(*config.preprocessing), data::PpUse::kEval, "fuzz");
    TESSERA_CHECK(chain.width() > 0 && chain.height() > 0);
    // What is written for Hugging Face's processor reads back as the same size.
    std::vector<std::string> notes;
    const auto again = interop::parse_processor(interop::hugging_face_preprocessor(*config.preprocessing, notes), "fuzz");
    TESSERA_CHECK(again.width == config.preprocessing->width && again.height == config.preprocessing->height);
    return true;
  });
}

}  // namespace

const std::vector<NamedTarget>& models_targets() {
  static const std::vector<NamedTarget> all = {{"model_config", model_config, 2048}};
  return all;
}

}  // namespace tessera::fuzz
