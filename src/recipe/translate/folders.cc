#include "recipe/translate/folders.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <vector>

#include "store/file.h"

namespace tessera::translate {

std::string folder_of(const std::string& root, const std::string& split) {
  static const std::vector<std::string> train = {"train", "training"},
                                        validation = {"val", "valid", "validation", "eval", "evaluation"};
  std::error_code error;
  const auto is_there = [&](const std::string& path) { return std::filesystem::exists(path, error); };
  const std::string name = split.substr(0, split.find('['));
  std::string own = store::join_path(root, name);
  if (is_there(own) || !is_there(root)) return own;
  for (const std::vector<std::string>& names : {train, validation}) {
    if (std::ranges::find(names, name) == names.end()) continue;
    for (const std::string& other : names) {
      std::string capital = other;  // as in some sets of Kaggle's
      capital[0] = static_cast<char>(std::toupper(capital[0]));
      for (const std::string& written : {other, capital}) {
        if (is_there(store::join_path(root, written))) return store::join_path(root, written);
      }
    }
  }
  return root;
}

}  // namespace tessera::translate
