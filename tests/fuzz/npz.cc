// libFuzzer on NumPy's archives: a .npz, and the same bytes as one .npy.

#include "checkpoint/npz.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>

#include "base/error.h"

namespace {

using tessera::checkpoint::NpzArray;

void check(const NpzArray& array) { TESSERA_CHECK(static_cast<int64_t>(array.data.size()) == tessera::byte_count(array.type)); }

// A result, or an Error with a message and nothing else.
void parse(const std::function<void()>& body) {
  try {
    body();
  } catch (const tessera::Error& error) {
    TESSERA_CHECK(!error.message().empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("fuzz.npz", 0);
  TESSERA_CHECK(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  parse([] {
    for (const NpzArray& array : tessera::checkpoint::read_npz(fmt::format("/proc/self/fd/{}", file))) check(array);
  });
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> copy(bytes, bytes + size);
  parse([&] { check(tessera::checkpoint::parse_npy("a", std::move(copy), "fuzz")); });
  return 0;
}
