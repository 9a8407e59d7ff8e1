#include "pages/board/runs/compilations.h"

#include <re2/re2.h>

namespace tessera::board {

std::optional<Compilation> parse_compilation(std::string_view line) {
  static const RE2 pattern(R"((\S+Z) compile  (.+) ([0-9.]+ s|[0-9]+(?::[0-9]{2})+)(?: \((.*)\))?)");
  Compilation out;
  if (!RE2::FullMatch(re2::StringPiece(line.data(), line.size()), pattern, &out.at, &out.program, &out.took, &out.cause)) {
    return std::nullopt;
  }
  return out;
}

}  // namespace tessera::board
