#pragma once
// <workdir>/best, a symbolic link to the best checkpoint by checkpoint.best, for whoever names that.

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::train {

// Makes the link lead to the checkpoint of `step`, in one go; removes it where that is nothing. Something else of this name stays. A
// file system that has no links goes without.
void link_best(const std::string& workdir, std::optional<int64_t> step) noexcept;

}  // namespace tessera::train
