#pragma once
// What a run tells its sinks (monitor/sinks/sink.h), one thing at a time.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/shape.h"
#include "image/image.h"
#include "monitor/metrics.h"

namespace tessera::monitor {

// A line of metrics.jsonl.
struct Scalars {
  std::vector<Metric> metrics;
};

// Markdown under a name: "recipe".
struct Text {
  std::string name, markdown;
};

// Text as it is, a line each, for markdown.
std::string as_code(const std::string& text);

// Pictures under a name, in their order.
struct Images {
  std::string name;
  std::vector<image::Image> images;
};

// How often the numbers of an array lie in each of so many equal parts of [least, greatest].
struct Histogram {
  std::string name;
  double least = 0, greatest = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> counts;
};
struct Histograms {
  std::vector<Histogram> histograms;
};

// A computation: each node's inputs are names of others. '/' in names makes groups.
struct GraphNode {
  std::string name, op;
  std::vector<std::string> inputs;
  TensorType type;  // of its (first) result
};
struct ModelGraph {
  std::vector<GraphNode> nodes;
};

// What a model made of some examples, each with its label, its name and a picture; all pictures are squares of one size.
struct Embedding {
  std::string name;
  int64_t width = 0;          // numbers of an example
  std::vector<float> values;  // [examples, width]
  std::vector<std::string> labels, ids;
  std::vector<image::Image> images;
};

// What a run is made of, to compare it with others: the keys of its recipe.
using HyperParameter = std::variant<bool, double, std::string>;
struct HyperParameters {
  std::vector<std::pair<std::string, HyperParameter>> values;
};

// The run came to its end, or this start of it did: all steps are done; a signal came, and the next start goes on; or it failed.
enum class Ending { kComplete, kStopped, kFailed };
struct RunEnd {
  Ending ending = Ending::kComplete;
  int exit_code = 0;  // of the program
};

struct Record {
  int64_t step = 0;
  double time = 0;  // seconds since 1970
  std::variant<Scalars, Text, Images, Histograms, ModelGraph, Embedding, HyperParameters, RunEnd> content;

  // About what it takes in memory.
  size_t bytes() const;
};
using RecordContent = decltype(Record::content);

}  // namespace tessera::monitor
