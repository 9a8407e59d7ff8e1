// Ops on texts and their names: lower, choice, copy, drop, keep (big_vision's pp/ops_text.py and pp/ops_general.py).
#include "base/error.h"
#include "data/pp_op.h"

namespace tessera::data {
namespace {

// From the text `key` to the text `to`.
class KeyOp : public PpTextOp {
 public:
  KeyOp(std::string key, std::string to) : key_(std::move(key)), to_(std::move(to)) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    shape.texts.read(key_, call);
    shape.texts.make(to_, call);
  }

 protected:
  std::string key_, to_;
};

class Lower final : public KeyOp {
 public:
  using KeyOp::KeyOp;
  DecodeResult change(PpTexts& texts, Rng&) const override {
    std::vector<std::string> values = texts.get(key_);
    for (std::string& value : values) value = ascii_lower(value);
    texts.set(to_, std::move(values));
    return std::nullopt;
  }
};

class Copy final : public KeyOp {
 public:
  using KeyOp::KeyOp;
  DecodeResult change(PpTexts& texts, Rng&) const override {
    std::vector<std::string> values = texts.get(key_);
    texts.set(to_, std::move(values));
    return std::nullopt;
  }
};

class Choice final : public KeyOp {
 public:
  using KeyOp::KeyOp;
  DecodeResult change(PpTexts& texts, Rng& rng) const override {
    const std::vector<std::string>& values = texts.get(key_);
    if (values.empty()) return DecodeError{fmt::format("it has no text `{}` to choose", key_)};
    std::string chosen = values[rng.below(values.size())];
    texts.set(to_, {std::move(chosen)});
    return std::nullopt;
  }
};

// keep and drop change what is known of names only: what nobody reads or writes costs nothing.
class Names final : public PpTextOp {
 public:
  Names(std::vector<std::string> names, bool keep) : names_(std::move(names)), keep_(keep) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    if (keep_) return shape.texts.keep(names_, call);
    for (const std::string& name : names_) shape.texts.drop(name, call);
  }
  DecodeResult change(PpTexts&, Rng&) const override { return std::nullopt; }

 private:
  std::vector<std::string> names_;
  bool keep_;
};

std::unique_ptr<PpOp> read_names(CallReader& call, bool keep) {
  std::vector<std::string> names = call.rest_texts();
  if (names.empty()) call.fail("it names nothing");
  return std::make_unique<Names>(std::move(names), keep);
}

template <class Op>
std::unique_ptr<PpOp> read_key(CallReader& call) {
  const std::string key = call.text("key", "text");
  return std::make_unique<Op>(key, call.text("to", key));
}

}  // namespace

std::unique_ptr<PpOp> make_lower(CallReader& call) { return read_key<Lower>(call); }
std::unique_ptr<PpOp> make_choice(CallReader& call) { return read_key<Choice>(call); }
std::unique_ptr<PpOp> make_copy(CallReader& call) {
  const std::string key = call.text("key");
  return std::make_unique<Copy>(key, call.text("to"));
}
std::unique_ptr<PpOp> make_keep(CallReader& call) { return read_names(call, true); }
std::unique_ptr<PpOp> make_drop(CallReader& call) { return read_names(call, false); }

}  // namespace tessera::data
