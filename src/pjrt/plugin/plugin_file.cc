#include "pjrt/plugin/plugin_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "store/file.h"

namespace tessera::pjrt {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

// Where a table ends; the greatest number where that is beyond all numbers.
uint64_t end_of(uint64_t offset, uint64_t size) {
  uint64_t end = 0;
  return __builtin_add_overflow(offset, size, &end) ? std::numeric_limits<uint64_t>::max() : end;
}

// The bytes that the headers ask for, as far as the file has them; nothing for what is no library.
std::optional<uint64_t> wanted_bytes(const store::ReadableFile& file) {
  const auto size = static_cast<uint64_t>(file.size());
  Header header;
  if (size < SELFMAG) return std::nullopt;
  std::byte magic[SELFMAG];
  file.read(0, magic);
  if (std::memcmp(magic, ELFMAG, SELFMAG) != 0) return std::nullopt;
  if (size < sizeof header) return sizeof header;
  file.read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.e_ident[EI_CLASS] != (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32)) return std::nullopt;
  if (header.e_phnum > 0 && header.e_phentsize != sizeof(Segment)) return std::nullopt;
  const uint64_t segments_end = end_of(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Segment));
  uint64_t wanted = std::max(segments_end, end_of(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize));
  if (segments_end > size) return wanted;
  std::vector<Segment> segments(header.e_phnum);
  file.read(static_cast<int64_t>(header.e_phoff), std::as_writable_bytes(std::span(segments)));
  for (const Segment& segment : segments) wanted = std::max(wanted, end_of(segment.p_offset, segment.p_filesz));
  return wanted;
}

}  // namespace

void check_library_file(const std::string& path) {
  const auto info = store::local_files().info(path);
  if (!info || info->directory) return;
  const auto file = store::local_files().open(path);
  const auto wanted = wanted_bytes(*file);
  if (!wanted || *wanted <= static_cast<uint64_t>(file->size())) return;
  throw device_error(fmt::format("the plugin's file is damaged or cut short: it has {} bytes, and its headers ask for {}",
                                 file->size(), *wanted),
                     path, "install it again (pip install --force-reinstall …), and look for free space on the disk");
}

}  // namespace tessera::pjrt
