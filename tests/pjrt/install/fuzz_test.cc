// Odd pages: mutants of good ones through the target of tests/fuzz/targets.h.

#include "fuzz/mutants.h"

namespace tessera::plugins {
namespace {

TEST(PluginsFuzz, DamagedPagesGiveAResultOrAnError) {
  for (const fuzz::NamedTarget& target : fuzz::plugins_targets())
    fuzz::expect_result_or_error(target, fuzz::corpus(target.name), true);
}

}  // namespace
}  // namespace tessera::plugins
