// Damaged recipes: mutants of good ones through every target of tests/fuzz/targets.h that concerns them.

#include "fuzz/mutants.h"

namespace tessera {
namespace {

TEST(Fuzz, DamagedRecipesGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::config_targets()) {
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
  }
}

}  // namespace
}  // namespace tessera
