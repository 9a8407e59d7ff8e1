#pragma once
// The names of a run's training images, as its directory keeps them, so that a later start can say which ones are new or gone.

#include <optional>
#include <string>
#include <vector>

#include "recipe/data_options.h"

namespace tessera::recipe {

// The names of all samples, in the order of the sets and of their samples. A mixture's begin with the set's name. Nothing where
// samples lie in shards, whose names may have to be read, and for more than two million samples.
std::optional<std::vector<std::string>> data_names(const Data& opened);

// A hash of those names and of the samples' labels; empty where there are no names.
std::string names_hash(const Data& opened);

// The text of a file that has the names, one a line.
std::string names_text(const std::vector<std::string>& names);

// "\n  2 images are new: a.png, b.png\n  1 image is gone: c.png"; empty where all are the same. `before` is such a file.
std::string name_changes(const std::string& before, const std::vector<std::string>& now);

}  // namespace tessera::recipe
