// lookup: a text becomes the number that a file gives it (big_vision's pp/ops_general.py, but for its NumPy archives).
#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/text/text.h"
#include "data/transform/pp_op.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::data {
namespace {

// Each whole text of the table is a piece of its own. The id after the last stands for no text, and fills rows.
class LookupTable final : public Tokenizer {
 public:
  using Numbers = std::map<std::string, int32_t, std::less<>>;
  LookupTable(const std::string& path, const std::string& bytes, Numbers numbers)
      : Tokenizer(path, bytes), numbers_(std::move(numbers)) {
    for (const auto& [text, number] : numbers_) {
      none_ = std::max(none_, number + 1);
      texts_.emplace(number, text);
    }
  }
  int64_t vocabulary() const override { return int64_t{none_} + 1; }
  std::optional<int32_t> bos() const override { return std::nullopt; }
  std::optional<int32_t> eos() const override { return std::nullopt; }
  std::optional<int32_t> find(std::string_view piece) const override {
    const auto found = numbers_.find(piece);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string piece(int32_t id) const override {
    const auto found = texts_.find(id);
    return found == texts_.end() ? "" : found->second;
  }
  void encode(std::string_view text, std::vector<int32_t>& ids) const override { ids.push_back(find(text).value_or(none_)); }
  std::string decode(std::span<const int32_t> ids) const override { return ids.empty() ? "" : piece(ids.front()); }
  int32_t none() const { return none_; }

 private:
  Numbers numbers_;
  std::map<int32_t, std::string> texts_;
  int32_t none_ = 0;
};

class Lookup final : public PpTextOp {
 public:
  Lookup(std::string key, TokenField field) : key_(std::move(key)), field_(std::move(field)) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    shape.texts.read(key_, call);
    shape.texts.make_tokens(field_, call);
  }
  image::SampleError change(PpTexts& texts, const SampleKey&) const override {
    const std::vector<std::string>& values = texts.get(key_);
    if (values.size() != 1)
      return image::DecodeFailure{fmt::format("it has {} texts `{}`, and one is looked up", values.size(), key_)};
    const Tokenizer& table = field_.encoder->tokenizer();
    if (!table.find(values[0])) return image::DecodeFailure{fmt::format("`{}` has no text `{}`", table.path(), values[0])};
    texts.write(field_.name, *field_.encoder, values[0]);
    return std::nullopt;
  }

 private:
  std::string key_;
  TokenField field_;
};

// A text a line, which stands for the line's place; or a text, `separator` and its number.
LookupTable::Numbers parse_table(const CallReader& call, const std::string& bytes, const std::string& separator) {
  LookupTable::Numbers numbers;
  int32_t line_number = 0;
  std::vector<std::string> lines = split(bytes, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();
    double number = line_number++;
    if (!separator.empty()) {
      const size_t at = line.find(separator);
      const auto own = at == std::string::npos ? std::nullopt : parse_number(trim(line.substr(at + separator.size())));
      if (!own || *own != std::floor(*own) || *own < 0 || *own >= std::numeric_limits<int32_t>::max() - 1) {
        call.fail(fmt::format("its line {} is no text, `{}` and a whole number from 0 on", line_number, separator));
      }
      number = *own;
      line.resize(at);
    }
    if (!numbers.emplace(line, static_cast<int32_t>(number)).second) call.fail(fmt::format("its text `{}` stands twice", line));
  }
  if (numbers.empty()) call.fail("its file is empty", "a text a line");
  return numbers;
}

std::string read_table_file(const CallReader& call, const std::string& path) {
  try {
    return store::read_small_file(store::files_at(path), path, store::kMaxListFile);
  } catch (const Error& error) {
    call.fail(error.message(), error.help());
  }
}

std::unique_ptr<PpOp> make_lookup(CallReader& call) {
  const std::string path = call.text("file"), key = call.text("key", "text"), to = call.text("to", "labels"),
                    separator = call.text("sep", ""), bytes = read_table_file(call, path);
  const auto table = std::make_shared<const LookupTable>(path, separator + "\n" + bytes, parse_table(call, bytes, separator));
  const TextEncoderOptions options{.length = 1, .eos = Eos::kNo, .lower = false, .pad = table->none()};
  TokenField field{to, 1, table->vocabulary(), table->none(), std::make_shared<const TextEncoder>(table, options)};
  return std::make_unique<Lookup>(key, std::move(field));
}

}  // namespace

const PpOpKind kLookup{
    "lookup", "lookup(file[, key=text][, to=labels][, sep=])",
    "the text as a row of one number: its line in the file, from 0 on, or with sep=, the number after it in that line",
    make_lookup};

}  // namespace tessera::data
