#pragma once
// Help pages: two examples first, then the flags.

#include <string>

#include "cli/command.h"

namespace tessera::cli {

// `tessera` alone: what it is, the commands, two examples.
std::string short_help();
// `tessera data`: the commands that begin with this word; empty when there are none.
std::string group_help(const std::string& group);
std::string command_help(const Page& page, const Flags& flags);

// `tessera help KEY`: documentation of the recipe's keys that are KEY or lie below it ("optimizer", "data.pp"); with an empty
// KEY the sections. An unknown key is a usage Error that names the nearest.
std::string key_help(const std::string& key);

}  // namespace tessera::cli
