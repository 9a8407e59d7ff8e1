#pragma once
// What every parser of data formats promises whatever the bytes: a result or an Error, and results that hold together. Each
// target is called by tests/data/format_fuzz_test.cc with mutants of good files and by libFuzzer (preset fuzz).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data::fuzz {

// True when the bytes were taken for what the target reads.
using Target = bool (*)(std::string_view bytes);

struct NamedTarget {
  const char* name;
  Target target;
};
const std::vector<NamedTarget>& targets();

// Puts right the checksums that stand before a parser, so that what lies behind them is reached too.
std::string reseal_tfrecords(std::string_view bytes);
std::string reseal_array_record(std::string_view bytes);
std::string reseal_tar(std::string_view bytes);

}  // namespace tessera::data::fuzz
