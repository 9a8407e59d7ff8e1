#include "base/system/elf_symbols.h"

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <optional>

namespace tessera {
namespace {

// The image's structs, which may lie anywhere in it, and whose offsets may be wrong.
class Image {
 public:
  explicit Image(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  std::optional<T> read(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T out;
    std::memcpy(&out, bytes_.data() + offset, sizeof(T));
    return out;
  }
  // The text at an offset within [begin, begin + size).
  std::string_view text(uint64_t begin, uint64_t size, uint64_t offset) const {
    if (begin > bytes_.size() || size > bytes_.size() - begin || offset >= size) return {};
    const char* first = reinterpret_cast<const char*>(bytes_.data()) + begin + offset;
    return {first, strnlen(first, size - offset)};
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

std::vector<ElfSymbol> elf_symbols(std::span<const std::byte> bytes) {
  const Image image(bytes);
  std::vector<ElfSymbol> out;
  const auto header = image.read<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) return out;
  const auto section = [&](uint64_t i) { return image.read<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr)); };
  for (uint64_t s = 0; s < header->e_shnum; ++s) {
    const auto table = section(s);
    if (!table || table->sh_type != SHT_SYMTAB) continue;
    const auto names = section(table->sh_link);
    if (!names) continue;
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = image.read<Elf64_Sym>(table->sh_offset + i * sizeof(Elf64_Sym));
      if (!symbol) break;
      if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE) continue;
      // An object's addresses count from the begin of their section.
      const auto within = header->e_type == ET_REL ? section(symbol->st_shndx) : std::nullopt;
      out.push_back({image.text(names->sh_offset, names->sh_size, symbol->st_name),
                     symbol->st_value + (within ? within->sh_addr : 0), symbol->st_size,
                     ELF64_ST_TYPE(symbol->st_info) == STT_FUNC});
    }
  }
  return out;
}

}  // namespace tessera
