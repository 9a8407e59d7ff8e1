// Damaged programs: mutants of good ones through the target of tests/fuzz/targets.h.

#include "fuzz/mutants.h"

namespace tessera::pjrt {
namespace {

TEST(PjrtFuzz, DamagedProgramsGiveAResultOrNothing) {
  for (const fuzz::NamedTarget& target : fuzz::pjrt_targets())
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
}

}  // namespace
}  // namespace tessera::pjrt
