#pragma once
// The recipes of a sweep: one for each choice of values.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::sweep {

// A key that a sweep gives several values.
struct Axis {
  std::string key;
  std::vector<std::string> values;  // as they stand behind key=
};

// Of "seed=0..4" (whole numbers, both ends included), "data.fold=0..4/5" (0/5, 1/5, …) or "optimizer.lr=1e-4,3e-4": values between
// commas outside of quotes and brackets. Nothing for a word that gives a key one value: "total=10 epochs", "model.depths=[1, 2]",
// and options in one text, as "early_stop=val/loss, patience=5 epochs". A usage Error for a range that is empty or has more than
// 1,000 numbers.
std::optional<Axis> parse_axis(const std::string& word);

using Variant = std::vector<std::pair<std::string, std::string>>;  // key and value, in the order of the axes

// Every choice; the last axis changes first.
std::vector<Variant> grid(const std::vector<Axis>& axes);
// `count` of them, or all where there are fewer, each once, in an order that `seed` draws.
std::vector<Variant> sample(const std::vector<Axis>& axes, int64_t count, uint64_t seed);

// "optimizer.lr=1e-4 seed=2".
std::string text_of(const Variant& variant);
// The same for a directory's name: letters, digits and "._=+-" alone, at most 80 of them.
std::string file_name_of(const Variant& variant);

}  // namespace tessera::sweep
