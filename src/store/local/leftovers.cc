#include "store/local/leftovers.h"

#include "base/system/process.h"
#include "base/text/digits.h"

namespace tessera::store {

std::optional<TemporaryName> parse_temporary_name(std::string_view name) {
  constexpr std::string_view kTemporary = ".tmp-";
  const size_t at = name.rfind(kTemporary);
  if (at == 0 || at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(at + kTemporary.size());
  TemporaryName found{name.substr(0, at)};
  found.writer = parse_digits(digits).value_or(0);
  return found.writer > 0 ? std::optional(found) : std::nullopt;
}

void remove_leftovers(Directory& directory, const std::function<bool(std::string_view file)>& own) {
  try {
    for (const FileInfo& entry : directory.list()) {
      const auto name = parse_temporary_name(entry.name);
      if (name && !entry.directory && own(name->file) && process_is_dead(name->writer)) directory.remove_file(entry.name);
    }
  } catch (const IoError&) {
    // Whoever needs the directory says what is wrong with it.
  }
}

}  // namespace tessera::store
