#pragma once
// A project as the documents describe theirs, in small: every recipe, folder, table, archive and run that a command names is there.

#include "cli/run_program.h"

namespace tessera::cli {

// Of a program that runs in the project: caches and home are its own, and no server is asked.
std::map<std::string, std::string> project_environment(const fs::path& project);

// A schedule or setting that fits a short run: phases of some length are a share of it, and what happens every epoch does every
// two steps.
std::string with_short_phases(const std::string& text);

// key=value that make a run of this recipe take a moment: `recipe` is its text.
std::vector<std::string> shortened(const std::string& recipe);

// The first complete recipe among a document's TOML blocks; empty: there is none.
std::string recipe_in(const std::string& document);

// Writes the project into an empty directory. Its runs are trained, since checkpoints and exports are made of them.
void write_project(const fs::path& project);

}  // namespace tessera::cli
