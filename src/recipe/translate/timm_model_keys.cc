#include "recipe/translate/timm_model_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "models/timm_args.h"

namespace tessera::translate {
namespace {

constexpr const char* kHelp = "options of the model are keys here: add model.KEY=VALUE to the command; tessera help model";

[[noreturn]] void refuse(const std::string& why, const std::string& help = kHelp) {
  throw usage_error("`--model-kwargs`: " + why, {}, help);
}

// As Python's literals, and those of YAML: text that is none stands for itself.
models::Json value_of(const std::string& text) {
  if (text == "True" || text == "False") return text == "True";
  if (text == "None") return nullptr;
  const JsonResult read = read_json(text);
  return read.problem.empty() ? models::Json(read.value) : models::Json(text);
}

// What train.py gives to the model itself, so that Python refuses it here, and what is an argument of training alone.
bool is_of_training(const std::string& name) {
  constexpr const char* kNames[] = {"num_classes", "in_chans", "global_pool", "bn_momentum",     "bn_eps",        "pretrained",
                                    "weight_init", "fix_init", "nlhb",        "head_init_scale", "zero_init_last"};
  return name.ends_with("drop_rate") || name.ends_with("drop_path_rate") || name.ends_with("drop_block_rate") ||
         name.starts_with("dynamic_img") || name == "strict_img_size" || std::ranges::count(kNames, name) > 0;
}

std::map<std::string, std::string> lines_of(const std::string& text) {
  std::map<std::string, std::string> lines;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) lines[line.substr(0, line.find(' '))] = line;
  }
  return lines;
}

}  // namespace

std::string timm_model_keys(const models::Family& family, const models::TimmArchitecture& architecture, const Arguments& args,
                            int64_t size) {
  models::Json wanted = models::parse_object(architecture.args, architecture.name);
  for (const std::string& word : args.words("model_kwargs")) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) refuse(fmt::format("`{}` is no NAME=VALUE", word));
    const std::string name = word.substr(0, equals);
    const models::Json value = value_of(word.substr(equals + 1));
    if (name == "img_size") {
      if (value != size)
        refuse(fmt::format("`{}`, where images have {} pixels", word, size), fmt::format("--img-size {}", value.dump()));
    } else if (is_of_training(name)) {
      refuse(fmt::format("`{}` has no key of its own", word));
    } else {
      wanted[name] = value;
    }
  }
  const std::map<std::string, std::string> usual = lines_of(family.keys_from_timm(architecture.args, architecture.name));
  const std::map<std::string, std::string> changed = [&] {
    try {
      return lines_of(family.keys_from_timm(wanted.dump(), ""));
    } catch (const Error& error) {
      refuse(error.message());
    }
  }();
  std::string out;
  for (const config::KeyDoc& key : family.keys("")) {
    const auto own = changed.find(key.key), was = usual.find(key.key);
    if (own != changed.end()) {
      if (was == usual.end() || was->second != own->second) out += own->second + "\n";
    } else if (was != usual.end()) {  // its default again
      if (key.default_value.empty()) refuse(fmt::format("`model.{}` of {} cannot be taken away", key.key, architecture.name));
      out += key.key + " = " + key.default_value + "\n";
    }
  }
  return out;
}

}  // namespace tessera::translate
