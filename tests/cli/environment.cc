// Programs seal what they keep in the cache of compiled programs with one key, whoever starts them: a test, mpirun, a scheduler.
#include <cstdlib>

#include "support/paths.h"

namespace tessera::cli {
namespace {

[[maybe_unused]] const int kSet = ::setenv("XDG_CONFIG_HOME", testing::config_path().c_str(), 1);

}  // namespace
}  // namespace tessera::cli
