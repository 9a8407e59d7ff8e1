// Damaged texts: mutants of good ones through every target of tests/fuzz/targets.h that concerns the folder.

#include "fuzz/mutants.h"

namespace tessera {
namespace {

TEST(Fuzz, DamagedTextsGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::base_targets()) {
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
  }
}

}  // namespace
}  // namespace tessera
