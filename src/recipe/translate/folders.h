#pragma once
// Data sets that are a folder with a folder for each part.

#include <string>

namespace tessera::translate {

// How timm looks for the folder of a split: of this name, else of another name for it, else the folder itself. Names may begin with a
// capital letter.
std::string folder_of(const std::string& root, const std::string& split);

}  // namespace tessera::translate
