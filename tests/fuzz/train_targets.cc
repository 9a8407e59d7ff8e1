#include "fuzz/targets.h"
#include "state/hub_listing.h"
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

// What the Hub says of a model's files: names that are no paths, and hashes that are file names too.
bool hub_listing(std::string_view bytes) {
  return parses([&] {
    const state::HubListing listing = state::parse_hub_listing(bytes, "fuzz");
    constexpr std::string_view kDigits = "0123456789abcdef";
    TESSERA_CHECK(listing.commit.size() == 40 && listing.commit.find_first_not_of(kDigits) == std::string::npos);
    for (const state::HubFile& file : listing.files) {
      TESSERA_CHECK(!file.name.empty() && !file.name.starts_with('.') && file.name.find('/') == std::string::npos);
      TESSERA_CHECK(file.size >= 0 && file.hash.size() == (file.large ? 64 : 40));
      TESSERA_CHECK(file.hash.find_first_not_of(kDigits) == std::string::npos && listing.find(file.name) != nullptr);
    }
    return !listing.files.empty();
  });
}

}  // namespace

const std::vector<NamedTarget>& train_targets() {
  static const std::vector<NamedTarget> all = {{"state", state, 1024}, {"hub_listing", hub_listing, 1024}};
  return all;
}

}  // namespace tessera::fuzz
