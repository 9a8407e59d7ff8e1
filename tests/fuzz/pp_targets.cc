#include "data/transform/pp.h"
#include "fuzz/targets.h"

namespace tessera::fuzz {
namespace {

bool pp(std::string_view bytes) {
  bool taken = false;
  for (const data::PpUse use : {data::PpUse::kTrain, data::PpUse::kEval})
    taken |= parses([&] {
      const data::Pp chain(bytes, use, "fuzz");
      return true;
    });
  return taken;
}

}  // namespace

const std::vector<NamedTarget>& pp_targets() {
  static const std::vector<NamedTarget> all = {{"pp", pp, 512}};
  return all;
}

}  // namespace tessera::fuzz
