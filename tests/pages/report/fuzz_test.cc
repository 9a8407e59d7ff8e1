// Damaged files of a run: mutants of good ones through every target of tests/fuzz/targets.h that concerns reports.

#include "fuzz/mutants.h"

namespace tessera {
namespace {

TEST(Fuzz, DamagedRunsGiveAPageOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::report_targets()) {
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
  }
}

}  // namespace
}  // namespace tessera
