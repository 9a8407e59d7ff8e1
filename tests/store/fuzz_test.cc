// Lists of checksums and answers of servers that are damaged: mutants of good ones through every target of tests/fuzz/targets.h
// that concerns them.

#include "fuzz/mutants.h"

namespace tessera {
namespace {

TEST(Fuzz, DamagedListsAndAnswersGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::store_targets()) {
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
  }
}

}  // namespace
}  // namespace tessera
