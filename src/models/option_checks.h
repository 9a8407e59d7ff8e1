#pragma once
// What the options of models have in common: checks, with errors that name the recipe's key.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "models/model.h"

namespace tessera::models {

// Throws a usage Error about option `key`: "`model.patch` <message>".
using FailOption = std::function<void(const char* key, const std::string& message, const std::string& help)>;
// Of a recipe's section, which the result keeps.
FailOption fail_in(const config::Section& section);

// The convolutional networks have four stages, and options with a number for each.
inline constexpr size_t kStages = 4;

class OptionChecks {
 public:
  // Without `fail`, errors name the option alone.
  explicit OptionChecks(FailOption fail = {}) : fail_(std::move(fail)) {}

  [[noreturn]] void fail(const char* key, const std::string& message, const std::string& help = {}) const;
  // The place of `value` among `known`.
  size_t choose(const char* key, const std::string& value, const std::vector<std::string>& known) const;
  // From 1 to 2^24, as sizes are.
  int64_t positive(const char* key, int64_t value) const;
  // A number of blocks: from 1 to 10,000.
  int64_t blocks(const char* key, int64_t value) const;
  // A required number, as positive() has it.
  int64_t required(const char* key, const std::optional<int64_t>& value, const std::string& help) const;
  double positive(const char* key, double value) const;
  int64_t not_negative(const char* key, int64_t value) const;  // to 2^24
  double rate(const char* key, double value) const;            // in [0, 1)
  double share(const char* key, double value) const;           // in [0, 1]

  // `data` with what the options `image_size` and `classes` say; both must then be known.
  InputShape input(const InputShape& data, const std::optional<int64_t>& image_size,
                   const std::optional<int64_t>& classes) const;
  // A size of the texts that a model reads: `given` in the recipe, or else the data's (0: not known), which it may not
  // contradict.
  int64_t size_of_text(const char* key, const std::optional<int64_t>& given, int64_t of_data) const;
  // `patch` divides height and width.
  void check_patch(const InputShape& input, int64_t patch) const;
  // `heads` divide the width.
  void check_heads(const char* key, int64_t heads, int64_t width) const;
  // Fixed positions of two dimensions need a width of four or more quarters.
  void check_sincos2d(const char* key, int64_t width) const;
  // For the options of a part of the model: its errors name the option after `prefix`, as "text.". Refers to this object.
  FailOption within(std::string prefix) const;
  // "auto", "full", "none", "dots" or "save(names…)" of `products`, a block's names for remat policies.
  ir::RematPolicy remat(const std::string& text, const std::vector<std::string>& products) const;

 private:
  int64_t at_most(const char* key, int64_t value, int64_t most) const;

  FailOption fail_;
};

// "1, 2, 4".
std::string list_numbers(const std::vector<int64_t>& numbers);
std::vector<int64_t> divisors(int64_t n);

}  // namespace tessera::models
