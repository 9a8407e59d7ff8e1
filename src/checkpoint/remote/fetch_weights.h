#pragma once
// Weights of other libraries on a server, as files here.

#include <string>

namespace tessera::remote {

// A local copy of the file, with the checksums beside it where there are any (store/checksums.h), and of the files that an index
// *.safetensors.index.json names. Copies stay in the cache directory; an object that was written anew is copied anew. Throws a data
// Error.
std::string fetch_weight_file(const std::string& url);

// The same of a directory of timm's or Hugging Face's: config.json, preprocessor_config.json and the weights. Empty where there is no
// config.json.
std::string fetch_weight_directory(const std::string& url);

}  // namespace tessera::remote
