#include "objectives/class_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "ir/ops.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::objectives {
namespace {

using nlohmann::json;

// The numbers that a key of a section gives.
class ClassNumbers {
 public:
  // Of `count` labels of a class, `all` labels and `images`: its number where they are balanced.
  using Balance = double (*)(double count, double all, double images, double classes);

  ClassNumbers(const config::Section& section, const char* key, const DataInputs& available)
      : section_(section), key_(key), data_(available) {}

  std::vector<float> of_text(const std::string& text, Balance balance) const {
    return text == "balanced" ? balanced(balance) : of_file(text);
  }

  // Of each class; `above`: 0 is too little as well.
  std::vector<float> checked(const std::vector<double>& numbers, bool above) const {
    if (static_cast<int64_t>(numbers.size()) != data_.classes) {
      section_.fail(key_, fmt::format("has {} numbers, and the data has {} classes", numbers.size(), data_.classes));
    }
    for (const double one : numbers) check(one, above);
    return {numbers.begin(), numbers.end()};
  }
  double check(double number, bool above) const {
    if (std::isfinite(number) && (above ? number > 0 : number >= 0)) return number;
    section_.fail(key_, fmt::format("must be {} 0, and is {}", above ? "above" : "at least", number));
  }

 private:
  std::vector<float> balanced(Balance balance) const {
    const ClassSizes sizes = data_.class_sizes ? data_.class_sizes() : std::nullopt;
    if (!sizes || data_.examples == 0) {
      section_.fail(key_, "is balanced, and how many training images each class has is not known here", "list the numbers");
    }
    const auto all = static_cast<double>(std::accumulate(sizes->begin(), sizes->end(), int64_t{0}));
    std::vector<float> numbers;
    for (size_t c = 0; c < sizes->size(); ++c) {
      if ((*sizes)[c] == 0) {
        throw data_error(fmt::format("the class `{}` has no training images, so that it has no balanced weight", name(c)),
                         section_.place(key_), "list the numbers, or take the class out");
      }
      numbers.push_back(static_cast<float>(balance(static_cast<double>((*sizes)[c]), all, static_cast<double>(data_.examples),
                                                   static_cast<double>(sizes->size()))));
    }
    return numbers;
  }

  std::vector<float> of_file(const std::string& path) const {
    std::string text;
    try {
      text = store::read_small_file(store::files_at(path), path);
    } catch (const Error& error) {
      section_.fail(
          key_,
          fmt::format("is \"{}\", which is neither balanced nor a file that can be read: {}", one_line(path), error.message()),
          "[1, 2.5, …], \"balanced\" or \"weights.json\"");
    }
    const JsonResult read = read_json(text);
    if (!read.problem.empty()) fail_file(path, "is no JSON: " + read.problem);
    std::vector<float> numbers;
    for (int64_t c = 0; c < data_.classes; ++c) numbers.push_back(number_of(read.value, c, path));
    const auto count = static_cast<int64_t>(read.value.size());
    if (count != data_.classes)
      fail_file(path, fmt::format("has {} numbers, and the data has {} classes", count, data_.classes));
    return numbers;
  }
  float number_of(const json& file, int64_t c, const std::string& path) const {
    const json* found = nullptr;
    if (file.is_array() && static_cast<size_t>(c) < file.size()) found = &file[static_cast<size_t>(c)];
    if (file.is_object()) {
      const auto at = file.find(name(static_cast<size_t>(c)));
      if (at != file.end()) found = &*at;
    }
    if (!found || !found->is_number())
      fail_file(path, fmt::format("has no number for class `{}`", name(static_cast<size_t>(c))));
    return found->get<float>();
  }
  [[noreturn]] void fail_file(const std::string& path, const std::string& what) const {
    section_.fail(key_, fmt::format("is `{}`, which {}", one_line(path), what),
                  "a JSON list in the order of the classes, or {\"class\": number}");
  }
  std::string name(size_t c) const { return c < data_.class_names.size() ? one_line(data_.class_names[c]) : std::to_string(c); }

  const config::Section& section_;
  const char* key_;
  const DataInputs& data_;
};

std::vector<float> read(const ClassNumbers& numbers, const config::NumbersOrText& value, bool above,
                        ClassNumbers::Balance balance) {
  std::vector<float> found;
  if (const auto* list = std::get_if<std::vector<double>>(&value)) found = numbers.checked(*list, above);
  if (const auto* text = std::get_if<std::string>(&value)) found = numbers.of_text(*text, balance);
  for (const float one : found) numbers.check(double{one}, above);
  return found;
}

}  // namespace

std::vector<float> read_class_weights(const config::Section& section, const config::NumbersOrText& value,
                                      const DataInputs& available) {
  if (std::holds_alternative<double>(value)) section.fail("class_weights", "is one number", "one for each class: [1, 2.5, …]");
  const ClassNumbers numbers(section, "class_weights", available);
  return read(numbers, value, false, [](double count, double all, double, double classes) { return all / (classes * count); });
}

std::vector<float> read_pos_weight(const config::Section& section, const config::NumbersOrText& value,
                                   const DataInputs& available) {
  const ClassNumbers numbers(section, "pos_weight", available);
  if (const auto* one = std::get_if<double>(&value)) {
    return std::vector<float>(static_cast<size_t>(available.classes), static_cast<float>(numbers.check(*one, true)));
  }
  return read(numbers, value, true, [](double count, double, double images, double) { return (images - count) / count; });
}

ir::Value row_of(const std::vector<float>& numbers) {
  return ir::constant_f32({1, static_cast<int64_t>(numbers.size())}, numbers);
}

}  // namespace tessera::objectives
