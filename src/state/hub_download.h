#pragma once
// Models of the Hugging Face Hub, fetched over HTTPS into the cache that huggingface_hub keeps, in its layout, so that its programs
// and ours find each other's files (https://huggingface.co/docs/hub/local-cache).

#include <string>

namespace tessera::state {

struct HubModel {
  std::string name;               // OWNER/NAME, or a name alone
  std::string revision = "main";  // a branch, a tag or a commit
};

// For messages about a model that is not there: that timm's models have a tag, where `name` is one of them without. Else empty.
std::string missing_tag(const std::string& name);

// models--OWNER--NAME
std::string hub_folder(std::string name);

// Fetches the model's config.json, its preprocessor_config.json where it has one, and its weights: model.safetensors, else those
// of model.safetensors.index.json, else pytorch_model.bin. The server is $HF_ENDPOINT, else https://huggingface.co; it gets the
// token of $HF_TOKEN, $HF_TOKEN_PATH or $HF_HOME/token. What was fetched in part is continued; a file gets its name once its size
// and its hash (SHA-256, of small files git's) are those that the Hub says. A file that is there already is not fetched again. What
// fails on the way is tried five times, and what has another hash twice. Returns the commit.
//
// Throws http::NotReached where there is no connection, a usage Error at `where` where the Hub has no such model or revision, does
// not give it to everybody, or where it has no weights that can be read, and a data Error for what else fails.
std::string download_model(const HubModel& model, const std::string& cache, const std::string& where);

}  // namespace tessera::state
