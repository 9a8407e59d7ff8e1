// One program a target: TESSERA_FUZZ_TARGET names it, and TESSERA_FUZZ_TARGETS the list that has it.

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "fuzz/targets.h"

namespace {

const tessera::fuzz::NamedTarget& chosen() {
  for (const tessera::fuzz::NamedTarget& one : tessera::fuzz::TESSERA_FUZZ_TARGETS()) {
    if (std::strcmp(one.name, TESSERA_FUZZ_TARGET) == 0) return one;
  }
  std::abort();
}

}  // namespace

// libFuzzer reads its options after this: one that the command line gives stands last and counts.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static std::string most = "-max_len=" + std::to_string(chosen().most_bytes);
  static std::vector<char*> all(*arguments, *arguments + *count);
  all.insert(all.begin() + 1, most.data());
  *count = static_cast<int>(all.size());
  all.push_back(nullptr);
  *arguments = all.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tessera::fuzz::Target target = chosen().target;
  target({reinterpret_cast<const char*>(data), size});
  return 0;
}
