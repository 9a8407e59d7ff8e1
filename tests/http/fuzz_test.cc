// Odd requests: mutants of good ones through the target of tests/fuzz/targets.h.

#include "fuzz/mutants.h"

namespace tessera {
namespace {

TEST(Fuzz, OddRequestsAreReadOrNot) {
  for (const fuzz::NamedTarget& target : fuzz::http_targets()) {
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
  }
}

}  // namespace
}  // namespace tessera
