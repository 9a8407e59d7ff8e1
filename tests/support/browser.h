#pragma once
// Pages in headless Chromium, which finds no host but this machine.

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "support/python_script.h"

namespace tessera::testing {

inline bool has_browser() { return std::system("command -v chromium-headless-shell > /dev/null") == 0; }

// tests/support/scripts/browse.py says what a visit is, and what comes of it.
inline nlohmann::json visit_pages(const nlohmann::json& visits) {
  return ask_script("python3", "browse.py", {nlohmann::json{{"visits", visits}}.dump()});
}
inline nlohmann::json visit_page(const nlohmann::json& visit) { return visit_pages(nlohmann::json::array({visit}))[0]; }

}  // namespace tessera::testing
