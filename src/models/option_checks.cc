#include "models/option_checks.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::models {
namespace {

// Far above any model, and small enough that no file and no typing error takes memory and time without end.
constexpr int64_t kMax = 1 << 24;
constexpr int64_t kMaxBlocks = 10'000;

}  // namespace

FailOption fail_in(const config::Section& section) {
  return [section](const char* key, const std::string& message, const std::string& help) { section.fail(key, message, help); };
}

std::string list_numbers(const std::vector<int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const int64_t n : numbers) texts.push_back(std::to_string(n));
  return join(texts, ", ");
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> small, large;
  for (int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d != n / d) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

void OptionChecks::fail(const char* key, const std::string& message, const std::string& help) const {
  if (fail_) fail_(key, message, help);
  throw usage_error(fmt::format("`{}` {}", key, message), {}, help);
}

size_t OptionChecks::choose(const char* key, const std::string& value, const std::vector<std::string>& known) const {
  const auto at = std::find(known.begin(), known.end(), value);
  if (at == known.end()) fail(key, fmt::format("can't be `{}`", value), suggest_name(value, known));
  return static_cast<size_t>(at - known.begin());
}

int64_t OptionChecks::positive(const char* key, int64_t value) const {
  if (value < 1) fail(key, fmt::format("must be at least 1, and is {}", value));
  return at_most(key, value, kMax);
}

int64_t OptionChecks::blocks(const char* key, int64_t value) const { return positive(key, at_most(key, value, kMaxBlocks)); }

int64_t OptionChecks::at_most(const char* key, int64_t value, int64_t most) const {
  if (value > most) fail(key, fmt::format("must be at most {}, and is {}", most, value), fmt::format("write {} or less", most));
  return value;
}

int64_t OptionChecks::required(const char* key, const std::optional<int64_t>& value, const std::string& help) const {
  if (!value) fail(key, "is not given", help);
  return positive(key, *value);
}

double OptionChecks::positive(const char* key, double value) const {
  if (!(value > 0)) fail(key, fmt::format("must be above 0, and is {}", value));
  return value;
}

int64_t OptionChecks::not_negative(const char* key, int64_t value) const {
  if (value < 0) fail(key, fmt::format("must be at least 0, and is {}", value));
  return at_most(key, value, kMax);
}

double OptionChecks::rate(const char* key, double value) const {
  if (!(value >= 0 && value < 1)) fail(key, fmt::format("must be in [0, 1), and is {}", value));
  return value;
}

double OptionChecks::share(const char* key, double value) const {
  if (!(value >= 0 && value <= 1)) fail(key, fmt::format("must lie in [0, 1], and is {}", value));
  return value;
}

InputShape OptionChecks::input(const InputShape& data, const std::optional<int64_t>& image_size,
                               const std::optional<int64_t>& classes) const {
  InputShape input = data;
  if (image_size) input.height = input.width = positive("image_size", *image_size);
  if (classes) input.classes = *classes;
  if (input.channels < 1) fail("channels", fmt::format("must be at least 1, and is {}", input.channels));
  if (input.height < 1 || input.width < 1) fail("image_size", "is not given, and the data does not tell it");
  if (input.classes < 1) fail("classes", "must be at least 1", "the data does not tell the number of classes: give it");
  return input;
}

int64_t OptionChecks::size_of_text(const char* key, const std::optional<int64_t>& given, int64_t of_data) const {
  const int64_t size = given.value_or(of_data);
  if (size < 1) fail(key, "is not given, and the data does not tell it", "end data.pp with tokenize(…), or give it");
  if (of_data > 0 && size != of_data) fail(key, fmt::format("is {}, and the data has {}", size, of_data), "leave it out");
  return size;
}

void OptionChecks::check_patch(const InputShape& input, int64_t patch) const {
  for (const int64_t size : {input.height, input.width}) {
    if (size % patch == 0) continue;
    const int64_t below = size / patch * patch;
    const std::string sizes = below == 0 ? list_numbers({patch}) : list_numbers({below, below + patch});
    fail("patch", fmt::format("must divide the image size {}, and is {}", size, patch),
         fmt::format("patches that do: {}; image sizes that patch {} divides: {}, …", list_numbers(divisors(size)), patch,
                     sizes));
  }
}

void OptionChecks::check_heads(const char* key, int64_t heads, int64_t width) const {
  if (width % heads == 0) return;
  fail(key, fmt::format("must divide the width {}, and is {}", width, heads), "use one of " + list_numbers(divisors(width)));
}

void OptionChecks::check_sincos2d(const char* key, int64_t width) const {
  if (width % 4 == 0 && width >= 8) return;
  fail(key, fmt::format("\"sincos2d\" needs a width of 4 x n, n > 1, and it is {}", width));
}

FailOption OptionChecks::within(std::string prefix) const {
  return [this, prefix = std::move(prefix)](const char* key, const std::string& message, const std::string& help) {
    fail((prefix + key).c_str(), message, help);
  };
}

ir::RematPolicy OptionChecks::remat(const std::string& text, const std::vector<std::string>& products) const {
  using Kind = ir::RematPolicy::Kind;
  const Call call = parse_call(text, "remat");
  const size_t kind = choose("remat", call.name, {"full", "none", "auto", "dots", "save"});
  if (kind != 4 && !call.args.empty()) fail("remat", fmt::format("`{}` takes no arguments", call.name));
  if (kind < 2) return {kind == 0 ? Kind::kSaveNothing : Kind::kSaveAll, {}};
  ir::RematPolicy policy{.kind = Kind::kSaveNamed, .names = {}, .automatic = kind == 2};
  if (kind != 4) policy.names = products;
  for (const CallArg& arg : call.args) policy.names.push_back(products[choose("remat", arg.value, products)]);
  return policy;
}

}  // namespace tessera::models
