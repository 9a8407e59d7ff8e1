#pragma once
// Damaged files, as the tests of every run give them to the targets of targets.h. Meant to run under the sanitizers.
// TESSERA_FUZZ_ROUNDS sets how many mutants are made of each file.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuzz/targets.h"

namespace tessera::fuzz {

// One of the files at least must be taken, and of their mutants some must be refused and, with `some_pass`, some taken.
void expect_result_or_error(const NamedTarget& target, const std::vector<std::string>& files, bool some_pass);

// The files of tests/fuzz/corpus/<target>.
std::vector<std::string> corpus(const std::string& target);

}  // namespace tessera::fuzz
