#pragma once
// What names of shards say: braces that stand for several names, and numbers of a set.

#include <string>
#include <vector>

namespace tessera::data {

// "train-{000..127}.tar" -> each of them; "{a,b}" -> both. Text without braces is itself. At most 10 million.
std::vector<std::string> expand_braces(const std::string& pattern);

// Names of the form …-00003-of-01024… tell how many shards a set has. Throws a data Error at `where` when one of them is missing.
void check_shards_complete(const std::vector<std::string>& paths, const std::string& where);

}  // namespace tessera::data
