#pragma once
// tar archives as WebDataset writes them: POSIX ustar and pax (IEEE Std 1003.1, pax), and GNU long names.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/formats/bytes/window.h"

namespace tessera::data {

struct TarMember {
  int64_t header = 0;  // where its first header begins, those with long names included
  int64_t data = 0, size = 0;
  int64_t end = 0;  // where the next member's headers begin
  std::string name;
  bool regular = true;  // a file; else a directory, a link, …
};

// The member whose headers begin at `offset`; nothing at the archive's end (zeros, or the end of the file). Throws a data Error
// that names `path` and the offset for a wrong checksum or a member that is cut short.
std::optional<TarMember> read_tar_member(const std::string& path, Window& window, int64_t offset);

// Headers of a member of `size` bytes (pax ones before it when the name needs them), with fixed times and owners.
std::string tar_header(std::string_view name, int64_t size);
// Zeros up to the next whole block.
std::string tar_padding(int64_t size);
// Two blocks of zeros.
std::string tar_end();

}  // namespace tessera::data
