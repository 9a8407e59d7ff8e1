#pragma once
// The Hugging Face Hub as its own programs find it.

#include <string>
#include <string_view>

namespace tessera::store {

// $HF_ENDPOINT without "/" at its end, else https://huggingface.co.
std::string hub_endpoint();

// $HF_TOKEN, $HUGGING_FACE_HUB_TOKEN, else what is in $HF_TOKEN_PATH or $HF_HOME/token; empty where there is none.
std::string hub_token();

// Where Hugging Face's programs keep their files: $HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. An empty
// variable counts as none; empty where there is no home either.
std::string hugging_face_home();

// Whether the user forbids requests to the Hub: HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is 1, TRUE, YES or ON, as
// huggingface_hub reads them.
bool hub_offline();

// hf://datasets/OWNER/NAME@REVISION/PATH, as huggingface_hub's file system has it; without `datasets/` it is a model's. REVISION is
// a branch, a tag or a commit, main where there is none; ~parquet is the branch refs/convert/parquet, as there.
struct HubPath {
  std::string kind;  // "datasets", "spaces" or "models"
  std::string name;  // OWNER/NAME
  std::string revision = "main";
  std::string path;  // in the repository; empty for the repository itself
};
// Throws a usage Error for any other form.
HubPath parse_hub_path(std::string_view url);

}  // namespace tessera::store
