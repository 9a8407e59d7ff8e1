// tokenize: a text becomes a row of ids, as big_vision's op of the same name (pp/ops_text.py).
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

class Tokenize final : public PpTextOp {
 public:
  // `padding` makes a row of nothing else; where it is null, there must be as many texts as rows.
  Tokenize(std::string key, TokenField field, std::shared_ptr<const TextEncoder> padding)
      : key_(std::move(key)), field_(std::move(field)), padding_(std::move(padding)) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    shape.texts.read(key_, call);
    shape.texts.make_tokens(field_, call);
  }
  image::SampleError change(PpTexts& texts, const SampleKey& key) const override {
    const std::vector<std::string>& values = texts.get(key_);
    for (const std::string& value : values) {
      if (value.size() > kMaxTextBytes) {
        return image::DecodeFailure{
            fmt::format("its text `{}` has {} bytes, and texts of up to {} are tokenized", key_, value.size(), kMaxTextBytes)};
      }
    }
    try {
      return encode(texts, values, key);
    } catch (const Error& error) {
      return image::DecodeFailure{error.message()};  // of this text: the tokenizer takes others
    }
  }

 private:
  static constexpr size_t kMaxTextBytes = size_t{1} << 20;

  image::SampleError encode(PpTexts& texts, const std::vector<std::string>& values, const SampleKey& key) const {
    const int64_t rows = field_.length / field_.encoder->options().length;
    if (rows > 1) return write_all(texts, values, rows);
    Rng rng(key.seed, key.epoch, key.sample);
    const std::string_view text =
        values.empty() ? std::string_view() : values[values.size() == 1 ? 0 : rng.below(values.size())];
    texts.write(field_.name, *field_.encoder, text);
    return std::nullopt;
  }

  image::SampleError write_all(PpTexts& texts, const std::vector<std::string>& values, int64_t rows) const {
    const auto count = static_cast<int64_t>(values.size());
    if (count > rows || (count < rows && !padding_)) {
      return image::DecodeFailure{fmt::format("it has {} texts `{}`, and {} are tokenized", count, key_, rows)};
    }
    for (int64_t row = 0; row < rows; ++row) {
      const bool there = row < count;
      texts.write(field_.name, there ? *field_.encoder : *padding_, there ? values[static_cast<size_t>(row)] : "", row);
    }
    return std::nullopt;
  }

  std::string key_;
  TokenField field_;
  std::shared_ptr<const TextEncoder> padding_;
};

std::shared_ptr<const Tokenizer> open_model(const CallReader& call, const std::string& path) {
  try {
    return open_tokenizer(path);
  } catch (const Error& error) {
    call.fail(error.message(), error.help());
  }
}

Eos read_eos(CallReader& call, const Tokenizer& tokenizer) {
  const std::string word = call.text("eos", "sticky");
  if (word == "no" || word == "none") return Eos::kNo;
  if (word != "yes" && word != "sticky") call.fail(fmt::format("`eos` is yes, no or sticky, not `{}`", word));
  if (!tokenizer.eos()) call.fail("the model has no piece for the end of a sentence", "eos=no");
  return word == "yes" ? Eos::kYes : Eos::kSticky;
}

bool read_bos(CallReader& call, const Tokenizer& tokenizer) {
  const bool bos = call.boolean("bos", false);
  if (bos && !tokenizer.bos()) call.fail("the model has no piece for the beginning of a sentence", "bos=false");
  return bos;
}

// A number, or a piece of the model.
int32_t read_pad(CallReader& call, const Tokenizer& tokenizer) {
  const std::string text = call.text("pad", "<pad>");
  if (const std::optional<double> number = parse_number(text)) {
    if (!(*number >= 0 && *number < static_cast<double>(tokenizer.vocabulary())) || *number != std::floor(*number)) {
      call.fail(fmt::format("`pad` must be one of the model's ids, 0 to {}, not {}", tokenizer.vocabulary() - 1, text));
    }
    return static_cast<int32_t>(*number);
  }
  const std::optional<int32_t> id = tokenizer.find(text);
  if (!id) call.fail(fmt::format("the model has no piece `{}` to fill rows up with", text), "pad=0, or a piece of the model");
  return *id;
}

// Those of big_vision's tokenize, and of other tokenizers.
void refuse_other_arguments(const CallReader& call) {
  static constexpr std::pair<const char*, const char*> kOthers[] = {
      {"max_len", "length"}, {"max_length", "length"}, {"context_length", "length"}, {"inkey", "key"},
      {"outkey", "to"},      {"add_bos", "bos"},       {"add_eos", "eos"},           {"pad_value", "pad"}};
  for (const auto& [other, own] : kOthers) {
    if (call.has(other)) call.fail(fmt::format("unknown argument `{}`", other), fmt::format("did you mean `{}`?", own));
  }
}

std::unique_ptr<PpOp> make_tokenize(CallReader& call) {
  constexpr int64_t kMaxIds = 1 << 20;
  TextEncoderOptions options;
  refuse_other_arguments(call);
  options.length = call.integer("length");
  if (options.length < 1 || options.length > kMaxIds) call.fail(fmt::format("`length` must be 1 to {}", kMaxIds));
  const auto tokenizer = open_model(call, call.text("model"));
  const std::string key = call.text("key", "text"), to = call.text("to", "labels");
  options.bos = read_bos(call, *tokenizer);
  options.eos = read_eos(call, *tokenizer);
  options.pad = read_pad(call, *tokenizer);
  options.lower = call.boolean("lower", true);
  const int64_t texts = call.integer("texts", 1);
  if (texts < 1 || texts > kMaxIds / options.length) call.fail(fmt::format("`texts` is {}, and must be at least 1", texts));
  const bool fewer = call.boolean("fewer", false);
  std::shared_ptr<const TextEncoder> padding;
  if (fewer) {
    padding = std::make_shared<const TextEncoder>(
        tokenizer, TextEncoderOptions{.length = options.length, .eos = Eos::kNo, .pad = options.pad});
  }
  auto encoder = std::make_shared<const TextEncoder>(tokenizer, options);
  TokenField field{to, texts * options.length, tokenizer->vocabulary(), options.pad, std::move(encoder)};
  return std::make_unique<Tokenize>(key, std::move(field), std::move(padding));
}

}  // namespace

const PpOpKind kTokenize{
    "tokenize",
    "tokenize(length, model=FILE[, key=text][, to=labels][, bos=false][, eos=sticky][, pad=<pad>][, lower=true][, texts=1]"
    "[, fewer=false])",
    "the text as a row of ids: FILE is a SentencePiece model; eos is no, yes (where it fits) or sticky (always); of several "
    "texts one is drawn as choice does; with texts=N a sample has N of them, which become N rows one after the other, and with "
    "fewer=true N at most: "
    "the other rows are padding",
    make_tokenize};

}  // namespace tessera::data
