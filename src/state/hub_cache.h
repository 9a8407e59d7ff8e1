#pragma once
// Models by their names on the Hugging Face Hub, in the cache that huggingface_hub keeps on this machine.

#include <string>

namespace tessera::state {

// Where huggingface_hub keeps what it fetched: $HF_HUB_CACHE, else $HUGGINGFACE_HUB_CACHE, else `hub` in hugging_face_home()
// (store/servers/hugging_face.h). An empty variable counts as none.
std::string hub_cache();

// The folder of a model in the cache, for `hub(OWNER/NAME)` or `hub(OWNER/NAME, revision=REV)`, where REV is a branch, a tag or a
// commit ("main"): models--OWNER--NAME/snapshots/COMMIT, where refs/REV holds COMMIT
// (https://huggingface.co/docs/hub/local-cache). timm's own names need no owner: `hub(vit_tiny_patch16_224.augreg_in21k)` is
// timm/vit_tiny_patch16_224.augreg_in21k, and the name alone, without `hub()`, is the same where no file has it. Any other text
// comes back as it is. A model that is not there, or is there without its weights, is fetched (state/hub_download.h); one that is
// there is used as it is, and no server is asked whether it has a newer one. Where it can't be fetched that is a usage Error at
// `where` that says why, with the command that fetches it elsewhere and what other weights of it are there.
std::string in_hub_cache(const std::string& from, const std::string& where);

// For hf-hub:OWNER/NAME and timm/NAME, as users of other libraries write a model of the Hub: its OWNER/NAME. Empty for anything
// else.
std::string other_hub_name(const std::string& from);

}  // namespace tessera::state
