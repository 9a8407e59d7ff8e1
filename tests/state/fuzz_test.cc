// Damaged state.json and listings of the Hub: mutants of good ones through every target of tests/fuzz/targets.h that concerns
// it.

#include "fuzz/mutants.h"

namespace tessera {
namespace {

TEST(Fuzz, DamagedStatesGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::train_targets()) {
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
  }
}

}  // namespace
}  // namespace tessera
