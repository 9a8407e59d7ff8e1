#include "recipe/translate/timm_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/call.h"

namespace tessera::translate {

Launcher find_launcher(const std::vector<std::string>& words) {
  Launcher out;
  const auto whole = [](const std::string& text) -> int64_t {
    const auto value = parse_number(text);
    return value && *value >= 1 && *value == std::floor(*value) && *value < 1e6 ? static_cast<int64_t>(*value) : 0;
  };
  int64_t processes = 1;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].ends_with("distributed_train.sh") || words[i].ends_with("distrbuted_train.sh")) {  // as timm's text has it
      if (i + 1 >= words.size() || !whole(words[i + 1])) throw usage_error("distributed_train.sh needs a number of devices");
      const bool named = i + 2 < words.size() && words[i + 2].ends_with("train.py");
      return {whole(words[i + 1]), i + (named ? 3 : 2)};
    }
    if (words[i].ends_with("train.py")) return {processes, i + 1};
    if (words[i].ends_with("validate.py")) {
      throw usage_error(fmt::format("`{}` does not train; `tessera eval` does what it does", words[i]), {},
                        "tessera eval RECIPE --from DIRECTORY, with the recipe that tessera timm … --print-recipe prints");
    }
    if (words[i].ends_with("inference.py")) {
      throw usage_error(fmt::format("`{}` does not train; `tessera predict` does what it does", words[i]), {},
                        "tessera predict --from DIRECTORY IMAGES");
    }
    std::string name = words[i];
    std::ranges::replace(name, '_', '-');
    const size_t equals = name.find('=');
    const std::string key = name.substr(0, equals);
    if (key != "--nproc-per-node" && key != "--nnodes" && key != "--num-devices") continue;
    const std::string value = equals != std::string::npos ? name.substr(equals + 1) : i + 1 < words.size() ? words[i + 1] : "";
    processes *= std::max<int64_t>(whole(value), 1);
  }
  return out;
}

}  // namespace tessera::translate
