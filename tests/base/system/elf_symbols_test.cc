#include "base/system/elf_symbols.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <random>

namespace tessera {
namespace {

std::vector<std::byte> own_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

const ElfSymbol* find(const std::vector<ElfSymbol>& symbols, std::string_view name) {
  const auto found = std::ranges::find(symbols, name, &ElfSymbol::name);
  return found == symbols.end() ? nullptr : &*found;
}

extern "C" int tessera_elf_symbols_test_number;
int tessera_elf_symbols_test_number = 7;
extern "C" __attribute__((noinline)) int tessera_elf_symbols_test_function(int x) {
  return x * tessera_elf_symbols_test_number;
}

TEST(ElfSymbols, OfThisProgram) {
  const std::vector<std::byte> image = own_program();
  const std::vector<ElfSymbol> symbols = elf_symbols(image);
  const ElfSymbol* function = find(symbols, "tessera_elf_symbols_test_function");
  const ElfSymbol* number = find(symbols, "tessera_elf_symbols_test_number");
  ASSERT_NE(function, nullptr);
  ASSERT_NE(number, nullptr);
  EXPECT_TRUE(function->is_function);
  EXPECT_FALSE(number->is_function);
#if defined(__clang__) && defined(__SANITIZE_ADDRESS__)
  EXPECT_GE(number->size, sizeof(int));  // with what AddressSanitizer watches behind it
#else
  EXPECT_EQ(number->size, sizeof(int));
#endif
  // Wherever the program was loaded.
  EXPECT_EQ(function->address - number->address, reinterpret_cast<uintptr_t>(&tessera_elf_symbols_test_function) -
                                                     reinterpret_cast<uintptr_t>(&tessera_elf_symbols_test_number));
  EXPECT_EQ(tessera_elf_symbols_test_function(6), 42);
}

TEST(ElfSymbols, OfDamagedImagesAreReadWithinThem) {
  const std::vector<std::byte> image = own_program();
  EXPECT_TRUE(elf_symbols({}).empty());
  EXPECT_TRUE(elf_symbols(std::span(image).first(64)).empty());
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> damaged(image.begin(), image.begin() + static_cast<ptrdiff_t>(random() % image.size()));
    for (int k = 0; k < 8 && !damaged.empty(); ++k) {
      damaged[random() % std::min<size_t>(damaged.size(), 64)] ^= static_cast<std::byte>(random());
    }
    for (const ElfSymbol& symbol : elf_symbols(damaged)) {
      if (symbol.name.empty()) continue;
      const auto* first = reinterpret_cast<const std::byte*>(symbol.name.data());
      ASSERT_TRUE(first >= damaged.data() && first + symbol.name.size() <= damaged.data() + damaged.size());
    }
  }
}

}  // namespace
}  // namespace tessera
