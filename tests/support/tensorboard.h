#pragma once
// Event files, read by TensorBoard's own reader. Only where ./dev has installed it (TESSERA_HAS_TENSORBOARD).

#ifdef TESSERA_HAS_TENSORBOARD

#include <nlohmann/json.hpp>
#include <string>

#include "support/clock_keys.h"
#include "support/python_script.h"

namespace tessera::testing {

// Everything in a directory of event files.
inline nlohmann::json read_events(const std::string& directory) {
  return ask_script(tensorboard_python_path(), "read_events.py", {directory});
}
// How the HParams tab compares all runs under a directory.
inline nlohmann::json read_hparams(const std::string& directory) {
  return ask_script(tensorboard_python_path(), "read_hparams.py", {directory});
}

// What a real server of it serves of all runs under a directory: the projector's embeddings, and the sizes of pictures.
inline nlohmann::json serve_tensorboard(const std::string& directory) {
  return ask_script(tensorboard_python_path(), "serve_tensorboard.py", {directory});
}

// What headless Chromium shows of that server's tabs (scripts/browse_tensorboard.py): `tabs` by name the texts to wait for.
inline nlohmann::json browse_tensorboard(const std::string& directory, const nlohmann::json& tabs) {
  return ask_script(tensorboard_python_path(), "browse_tensorboard.py", {directory, tabs.dump()});
}

// Its curves but for those that the clock decides.
inline nlohmann::json timeless_curves(const std::string& directory) {
  nlohmann::json curves = read_events(directory)["scalars"];
  erase_clock_keys(curves);
  return curves;
}

}  // namespace tessera::testing

#endif
