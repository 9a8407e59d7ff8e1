// Damaged files of weights and of checkpoints: mutants of good ones through every target of tests/fuzz/targets.h that concerns
// them.

#include "fuzz/mutants.h"

namespace tessera {
namespace {

TEST(Fuzz, DamagedFilesGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::checkpoint_targets()) {
    // Behind a checksum little is taken that was damaged, and little of a header that must account for every byte.
    const std::string name(target.name);
    fuzz::expect_result_or_error(target, fuzz::corpus(name), name != "commit" && name != "safetensors");
  }
}

}  // namespace
}  // namespace tessera
