// tessera data tokenizer: a SentencePiece model from the texts of a source.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "data/source.h"
#include "data/text/text_encoder.h"
#include "data/text/train_sentencepiece.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kProgressEvery = 1000;
const std::vector<std::string> kKinds = {"unigram", "bpe", "char", "word"};

// Every text of the source's field, as `tokenize` will see it.
std::vector<std::string> read_texts(const data::Source& source, size_t field, bool keep_case) {
  std::vector<std::string> texts;
  data::Sample sample;
  int64_t unreadable = 0;
  for (int64_t i = 0; i < source.size(); ++i) {
    if (i % kProgressEvery == 0)
      log_status(fmt::format("{}: {} of {} samples", source.name(), human_count(i), human_count(source.size())));
    if (source.read(i, sample)) {
      ++unreadable;
      continue;
    }
    for (const std::string_view text : sample.texts[field]) {
      texts.push_back(keep_case ? std::string(text) : data::ascii_lower(text));
    }
  }
  log_status("");
  if (unreadable > 0) log_warning(fmt::format("left out: {} samples that can't be read", human_count(unreadable)));
  return texts;
}

// Ids of each text with the end of the sentence, in rising order.
std::vector<size_t> lengths_of(const data::Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  std::vector<size_t> lengths;
  std::vector<int32_t> ids;
  for (const std::string& text : texts) {
    ids.clear();
    tokenizer.encode(text, ids);
    lengths.push_back(ids.size() + 1);
  }
  std::ranges::sort(lengths);
  return lengths;
}

class DataTokenizer final : public Command {
 public:
  Page page() const override {
    return {"data tokenizer",
            "SOURCE",
            "make a SentencePiece model from the texts of a source",
            {{"tessera data tokenizer \"jsonl(data/shapes/train.jsonl, text=caption)\" --kind bpe --size 200",
              "writes tokenizer.model"},
             {"tessera data tokenizer \"wds(coco-*.tar, text=json.captions)\" --size 8000 --out coco.model", "a larger one"}},
            "A chain uses it as tokenize(LENGTH, model=FILE, key=TEXT). The same texts give the same file."};
  }
  void declare(Flags& flags) override {
    flags.add("--out", "FILE", &out_, "the model, tokenizer.model when not given");
    flags.add("--text", "NAME", &text_, "which of the source's texts, where it has several");
    flags.add("--size", "N", &training_.vocabulary, {4, 1 << 24},
              "pieces, 1000 when not given; fewer where the texts have no more");
    flags.add("--kind", "NAME", &training_.kind, OneOf{kKinds}, fmt::format("; {} when not given", training_.kind));
    flags.add("--byte-fallback", &training_.byte_fallback, "bytes as pieces, for what is in no other piece");
    flags.add("--keep-case", &keep_case_, "for tokenize(lower=false): A-Z are not made a-z");
    flags.add("--json", &json_, "one JSON object");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (words.size() != 1) throw usage_error("`data tokenizer` takes one source", {}, page().examples[0].command);
    if (std::ranges::find(kKinds, training_.kind) == kKinds.end())
      throw usage_error(fmt::format("unknown kind `{}`", training_.kind), "--kind", suggest_name(training_.kind, kKinds));
    store::refuse_writing(out_, "--out");
    const auto source = data::make_source(words[0], "SOURCE");
    const std::vector<std::string> texts = read_texts(*source, field_of(*source), keep_case_);
    if (texts.empty()) throw data_error(fmt::format("`{}` has no texts", words[0]));
    const auto next = [i = size_t{0}, &texts]() mutable {
      return i < texts.size() ? std::optional<std::string>(texts[i++]) : std::nullopt;
    };
    store::write_atomic(store::files_at(out_), out_, data::train_sentencepiece(training_, next));
    report(lengths_of(*data::open_tokenizer(out_), texts));
    return Exit::kDone;
  }

 private:
  size_t field_of(const data::Source& source) const {
    const std::vector<std::string> fields = source.text_fields();
    if (fields.empty()) throw usage_error("the source has no texts", "SOURCE", "name one in its call: text=caption");
    if (text_.empty() && fields.size() > 1)
      throw usage_error("the source has several texts", "--text", "known: " + join(fields, ", "));
    const auto found = text_.empty() ? fields.begin() : std::ranges::find(fields, text_);
    if (found == fields.end())
      throw usage_error(fmt::format("the source has no text `{}`", text_), "--text", suggest_name(text_, fields));
    return static_cast<size_t>(found - fields.begin());
  }
  void report(const std::vector<size_t>& lengths) const {
    const int64_t pieces = data::open_tokenizer(out_)->vocabulary();
    const size_t usual = lengths[(lengths.size() - 1) * 99 / 100];
    if (json_) {
      print_json(Json{{"model", out_},
                      {"pieces", pieces},
                      {"texts", lengths.size()},
                      {"longest", lengths.back()},
                      {"percentile_99", usual}});
      return;
    }
    log_note(fmt::format("{} pieces from {} texts; the longest has {} ids with the end of the sentence, 99 % have at most {}",
                         pieces, human_count(static_cast<int64_t>(lengths.size())), lengths.back(), usual));
    print(out_);
  }

  std::string out_ = "tokenizer.model", text_;
  data::SentencePieceTraining training_;
  bool keep_case_ = false, json_ = false;
};

}  // namespace

const CommandEntry kDataTokenizer = command_entry<DataTokenizer>("data tokenizer");

}  // namespace tessera::cli
