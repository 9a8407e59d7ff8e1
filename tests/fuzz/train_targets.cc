#include "fuzz/targets.h"
#include "state/progress.h"

namespace tessera::fuzz {
namespace {

// state.json's `state`. What is read is written the same again.
bool state(std::string_view bytes) {
  const std::string text(bytes);
  std::string written;
  const bool taken = parses([&] {
    written = state::to_json(state::parse_progress(text, "fuzz"), state::parse_description(text, "fuzz"));
    return true;
  });
  const auto again = [&] {
    return state::to_json(state::parse_progress(written, "fuzz"), state::parse_description(written, "fuzz"));
  };
  TESSERA_CHECK(!taken || again() == written);
  return taken;
}

}  // namespace

const std::vector<NamedTarget>& train_targets() {
  static const std::vector<NamedTarget> all = {{"state", state, 1024}};
  return all;
}

}  // namespace tessera::fuzz
