#pragma once
// What TensorBoard's HParams tab reads (tensorboard/plugins/hparams/plugin_data.proto). There is no summary of an experiment: the
// tab takes the first that it finds among all runs and shows no other keys than that one's, while without any it collects the
// keys of all runs and puts those first in which they differ.

#include <string>
#include <string_view>

#include "monitor/record.h"

namespace tessera::monitor {

// What the tags of its summaries begin with.
inline constexpr std::string_view kHparamsTags = "_hparams_/";

// The content of the plugin's data, serialised.
std::string session_start(const HyperParameters& parameters);
std::string session_end(const RunEnd& end);

}  // namespace tessera::monitor
