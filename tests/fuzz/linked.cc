// Nothing to run: that this links shows that a list of targets names all sources that it needs (CMakeLists.txt).

#include "fuzz/targets.h"

int main() { return tessera::fuzz::TESSERA_FUZZ_TARGETS().empty() ? 1 : 0; }
