#pragma once
// Help pages: two examples first, then the flags.

#include <string>
#include <vector>

#include "cli/command.h"

namespace tessera::cli {

// `tessera` alone: what it is, the commands, two examples.
std::string short_help();
// `tessera data`: the commands that begin with this word; empty when there are none.
std::string group_help(const std::string& group);
std::string command_help(const Page& page, const Flags& flags);

// `tessera help KEY`: documentation of the recipe's keys that are KEY or lie below it ("optimizer", "data.pp"), or of what
// is called KEY ("vit", "cosine", "flip_lr"); with an empty KEY the sections. An unknown KEY is a usage Error that names the
// nearest.
std::string key_help(const std::string& key);
// The names that key_help() takes: sections, keys, models, optimizers, steps of preprocessing, ….
std::vector<std::string> help_topics();

// All keys of a recipe as Markdown, a table a section, and lists of what they may name: what `tessera help --markdown` prints, and
// docs/keys.md holds.
std::string keys_page();

// The manual of the program, for `man`: commands with their flags, keys of a recipe, exit codes.
std::string man_page();

}  // namespace tessera::cli
