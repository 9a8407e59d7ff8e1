// Damaged event files, and others that a run or its page goes on with: mutants of good ones through every target of
// tests/fuzz/targets.h that concerns them.

#include "fuzz/mutants.h"

namespace tessera::monitor {
namespace {

TEST(EventFuzz, FilesGiveWhatCanBeReadOfThem) {
  for (const fuzz::NamedTarget& target : fuzz::monitor_targets()) {
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), /*some_pass=*/true);
  }
}

}  // namespace
}  // namespace tessera::monitor
