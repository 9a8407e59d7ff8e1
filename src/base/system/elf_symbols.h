#pragma once
// Symbols of a 64-bit ELF image: a shared library's file, or an object in memory.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

struct ElfSymbol {
  std::string_view name;  // in the image
  uint64_t address = 0;   // as the image says: of a library, from where it is loaded on
  uint64_t size = 0;
  bool is_function = false;
};

// Those of its .symtab that are defined there; none where it has none, or is no such image.
std::vector<ElfSymbol> elf_symbols(std::span<const std::byte> image);

}  // namespace tessera
