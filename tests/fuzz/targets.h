#pragma once
// What every parser promises whatever the bytes: a result or an Error, and results that hold together. Each target is called by
// the tests of its folder with mutants of good files (mutants.h) and by libFuzzer (preset fuzz).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tessera::fuzz {

// True when the bytes were taken for what the target reads.
using Target = bool (*)(std::string_view bytes);

struct NamedTarget {
  const char* name;  // of its folder in corpus/ too
  Target target;
  size_t most_bytes;  // of what libFuzzer makes: longer files would be slower and reach nothing new
};
const std::vector<NamedTarget>& base_targets();        // JSON, patterns over names
const std::vector<NamedTarget>& data_targets();        // formats of data sets, images, tokenizers
const std::vector<NamedTarget>& index_targets();       // what is kept of a data set
const std::vector<NamedTarget>& pp_targets();          // preprocessing chains
const std::vector<NamedTarget>& checkpoint_targets();  // files of weights and those beside them
const std::vector<NamedTarget>& config_targets();      // recipes and what is written in them
const std::vector<NamedTarget>& models_targets();      // directories of timm's and Hugging Face's
const std::vector<NamedTarget>& monitor_targets();     // files of TensorBoard, W&B and the live page, answers of MLflow
const std::vector<NamedTarget>& train_targets();       // what a checkpoint knows besides arrays, the Hub's listings
const std::vector<NamedTarget>& report_targets();      // what a run leaves for its report
const std::vector<NamedTarget>& http_targets();        // requests for pages
const std::vector<NamedTarget>& recipe_targets();      // arguments of timm's
const std::vector<NamedTarget>& cluster_targets();     // answers of etcd
const std::vector<NamedTarget>& store_targets();       // lists of checksums, answers of web servers
const std::vector<NamedTarget>& pjrt_targets();        // programs that a plugin serialised
const std::vector<NamedTarget>& plugins_targets();     // pages of package indexes

// A parser may throw an Error with a message and nothing else.
template <class Body>
bool parses(Body body) {
  try {
    return body();
  } catch (const Error& error) {
    TESSERA_CHECK(!error.message().empty());
    return false;
  }
}

// Puts right the checksums that stand before a parser, so that what lies behind them is reached too.
std::string reseal_tfrecords(std::string_view bytes);
std::string reseal_array_record(std::string_view bytes);
std::string reseal_tar(std::string_view bytes);
std::string reseal_sidecar(std::string_view bytes);
std::string reseal_commit(std::string_view bytes);

}  // namespace tessera::fuzz
