#pragma once
// What the page gets from a run's files besides its metrics (watched_run.h). Each function reads files, and throws what reading
// throws.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pages/report/html.h"
#include "store/file.h"

namespace tessera::board {

// Remarks of the verdict, where time went in seconds, facts of run.json, recipe, checkpoints.
nlohmann::ordered_json run_details(const std::string& path, store::FileSystem& files = store::local_files());

// {"lines": […], "next": offset}: the whole lines of log.txt from `after` bytes on; at most the last 256 KiB of them.
nlohmann::ordered_json log_lines(const std::string& path, int64_t after, store::FileSystem& files = store::local_files());

// Parts of the page that `tessera report` writes: each evaluator's classes, confusion and worst images.
report::Markup evaluations_part(const std::string& path, store::FileSystem& files = store::local_files());
// Training images as the model is given them.
report::Markup images_part(const std::string& path, store::FileSystem& files = store::local_files());
// Memory and speed, command, recipe.
report::Markup facts_part(const std::string& path, store::FileSystem& files = store::local_files());
// The keys of the recipes that are not the same.
report::Markup differences_part(const std::vector<std::string>& paths, store::FileSystem& files = store::local_files());

}  // namespace tessera::board
