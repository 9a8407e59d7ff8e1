// Damaged files of timm's arguments: mutants of good ones through every target of tests/fuzz/targets.h that concerns them.

#include "fuzz/mutants.h"

namespace tessera {
namespace {

TEST(Fuzz, DamagedArgumentsGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::recipe_targets()) {
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
  }
}

}  // namespace
}  // namespace tessera
