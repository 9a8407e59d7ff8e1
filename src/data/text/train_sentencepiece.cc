#include "data/text/train_sentencepiece.h"

#include <sentencepiece_trainer.h>

#include "base/error.h"

namespace tessera::data {
namespace {

class Texts final : public sentencepiece::SentenceIterator {
 public:
  explicit Texts(const std::function<std::optional<std::string>()>& next) : next_(next), value_(next()) {}
  bool done() const override { return !value_; }
  void Next() override { value_ = next_(); }
  const std::string& value() const override { return *value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::function<std::optional<std::string>()>& next_;
  std::optional<std::string> value_;
};

// "Internal: src/trainer_interface.cc(591) [(…)] Vocabulary size too high (9)." -> "Vocabulary size too high (9)."
std::string reason_of(const std::string& status) {
  const size_t bracket = status.rfind("] ");
  return bracket == std::string::npos || bracket + 2 >= status.size() ? status : status.substr(bracket + 2);
}

}  // namespace

std::string train_sentencepiece(const SentencePieceTraining& training,
                                const std::function<std::optional<std::string>()>& next) {
  Texts texts(next);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train({{"model_type", training.kind},
                                                                  {"vocab_size", std::to_string(training.vocabulary)},
                                                                  {"hard_vocab_limit", "false"},
                                                                  {"byte_fallback", training.byte_fallback ? "true" : "false"},
                                                                  {"pad_id", "0"},
                                                                  {"eos_id", "1"},
                                                                  {"unk_id", "2"},
                                                                  {"bos_id", "-1"},
                                                                  {"num_threads", "1"},
                                                                  {"minloglevel", "2"}},
                                                                 &texts, &model);
  if (!status.ok()) {
    throw usage_error(fmt::format("SentencePiece makes no model of these texts: {}", reason_of(status.ToString())));
  }
  return model;
}

}  // namespace tessera::data
