// Ops on texts and their names: lower, copy, coco_captions, concat, setdefault, strfmt, drop, keep (big_vision's pp/ops_text.py
// and pp/ops_general.py).
#include <algorithm>

#include "base/error.h"
#include "data/names.h"
#include "data/transform/pp_op.h"

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
  image::SampleError change(PpTexts& texts, const SampleKey&) const override {
    std::vector<std::string> values = texts.get(key_);
    for (std::string& value : values) value = ascii_lower(value);
    texts.set(to_, std::move(values));
    return std::nullopt;
  }
};

class Copy final : public KeyOp {
 public:
  using KeyOp::KeyOp;
  image::SampleError change(PpTexts& texts, const SampleKey&) const override {
    std::vector<std::string> values = texts.get(key_);
    texts.set(to_, std::move(values));
    return std::nullopt;
  }
};

class SetDefault final : public KeyOp {
 public:
  SetDefault(const std::string& key, std::string value) : KeyOp(key, key), value_(std::move(value)) {}
  image::SampleError change(PpTexts& texts, const SampleKey&) const override {
    if (texts.get(key_).empty()) texts.set(key_, {value_});
    return std::nullopt;
  }

 private:
  std::string value_;
};

class Concat final : public PpTextOp {
 public:
  Concat(std::vector<std::string> keys, std::string to) : keys_(std::move(keys)), to_(std::move(to)) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    for (const std::string& key : keys_) shape.texts.read(key, call);
    shape.texts.make(to_, call);
  }
  image::SampleError change(PpTexts& texts, const SampleKey&) const override {
    std::vector<std::string> all;
    for (const std::string& key : keys_) {
      const std::vector<std::string>& values = texts.get(key);
      all.insert(all.end(), values.begin(), values.end());
    }
    texts.set(to_, std::move(all));
    return std::nullopt;
  }

 private:
  std::vector<std::string> keys_;
  std::string to_;
};

// "a {key} b": the text before each field, and the field; the last part has no field.
struct TemplatePart {
  std::string before;
  std::string key;
};

// Python's string.Formatter().parse() for fields that are names alone, which is what big_vision takes.
std::vector<TemplatePart> parse_template(const std::string& text, const CallReader& call) {
  std::vector<TemplatePart> parts(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      parts.back().before += c;
    } else if (i + 1 < text.size() && text[i + 1] == c) {
      parts.back().before += c;
      ++i;
    } else {
      const size_t end = c == '{' ? text.find('}', i) : std::string::npos;
      if (end == std::string::npos) call.fail(fmt::format("a lone `{}` in the template", c), "{{ and }} stand for braces");
      parts.back().key = text.substr(i + 1, end - i - 1);
      if (parts.back().key.empty() || parts.back().key.find_first_of("{:!") != std::string::npos)
        call.fail(fmt::format("`{{{}}}` names no text", parts.back().key), "{NAME} is the text NAME, without a format");
      parts.emplace_back();
      i = end;
    }
  }
  return parts;
}

class Strfmt final : public PpTextOp {
 public:
  Strfmt(std::vector<TemplatePart> parts, std::string to) : parts_(std::move(parts)), to_(std::move(to)) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    for (const TemplatePart& part : parts_) {
      if (!part.key.empty()) shape.texts.read(part.key, call);
    }
    shape.texts.make(to_, call);
  }
  // A field with one text goes into each of the others', as tf.strings.join has it.
  image::SampleError change(PpTexts& texts, const SampleKey&) const override {
    size_t count = 1;
    const std::string* several = nullptr;
    for (const TemplatePart& part : parts_) {
      const size_t here = part.key.empty() ? 1 : texts.get(part.key).size();
      if (here == 1) continue;
      if (several && here != count)
        return image::DecodeFailure{fmt::format("it has {} texts `{}` and {} `{}`", count, *several, here, part.key)};
      count = here, several = &part.key;
    }
    std::vector<std::string> values(count);
    for (const TemplatePart& part : parts_) append(texts, part, values);
    texts.set(to_, std::move(values));
    return std::nullopt;
  }

 private:
  static void append(const PpTexts& texts, const TemplatePart& part, std::vector<std::string>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += part.before;
      if (part.key.empty()) continue;
      const std::vector<std::string>& own = texts.get(part.key);
      values[i] += own[own.size() == 1 ? 0 : i];
    }
  }

  std::vector<TemplatePart> parts_;
  std::string to_;
};

// keep and drop change what is known of names only: what nobody reads or writes costs nothing.
class Names final : public PpTextOp {
 public:
  Names(std::vector<std::string> names, bool keep) : names_(std::move(names)), keep_(keep) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    if (keep_) return shape.texts.keep(names_, call);
    for (const std::string& name : names_) shape.texts.drop(name, call);
  }
  image::SampleError change(PpTexts&, const SampleKey&) const override { return std::nullopt; }

 private:
  std::vector<std::string> names_;
  bool keep_;
};

std::unique_ptr<PpOp> make_names(CallReader& call, bool keep) {
  std::vector<std::string> names = call.rest_texts();
  if (names.empty()) call.fail("it names nothing");
  return std::make_unique<Names>(std::move(names), keep);
}

std::unique_ptr<PpOp> make_lower(CallReader& call) {
  const std::string key = call.text("key", "text");
  return std::make_unique<Lower>(key, call.text("to", key));
}

std::unique_ptr<PpOp> make_copy(CallReader& call) {
  const std::string key = call.text("key");
  return std::make_unique<Copy>(key, call.text("to"));
}

std::unique_ptr<PpOp> make_coco_captions(CallReader& call) {
  return std::make_unique<Copy>("captions/text", call.text("to", "captions"));
}

std::unique_ptr<PpOp> make_concat(CallReader& call) {
  std::vector<std::string> keys = parse_names(call.text("keys"));
  if (keys.empty()) call.fail("it names nothing", "concat([captions, titles], to=text)");
  std::string to = call.text("to", keys.front());
  return std::make_unique<Concat>(std::move(keys), std::move(to));
}

std::unique_ptr<PpOp> make_setdefault(CallReader& call) {
  const std::string key = call.text("key");
  return std::make_unique<SetDefault>(key, call.text("value"));
}

std::unique_ptr<PpOp> make_strfmt(CallReader& call) {
  std::vector<TemplatePart> parts = parse_template(call.text("template"), call);
  return std::make_unique<Strfmt>(std::move(parts), call.text("to", "text"));
}

std::unique_ptr<PpOp> make_keep(CallReader& call) { return make_names(call, true); }

std::unique_ptr<PpOp> make_drop(CallReader& call) { return make_names(call, false); }

}  // namespace

const PpOpKind kLower{"lower", "lower[(key=text[, to=KEY])]",
                      "A-Z of the text to a-z, as TensorFlow; text ops may stand anywhere", make_lower};
const PpOpKind kCopy{"copy", "copy(key, to)", "the text under another name", make_copy};
const PpOpKind kCocoCaptions{"coco_captions", "coco_captions[(to=captions)]", "copy(captions/text, to): as TFDS has COCO's",
                             make_coco_captions};
const PpOpKind kConcat{"concat", "concat([NAME, …][, to=FIRST])", "the texts of several fields, one after the other",
                       make_concat};
const PpOpKind kSetdefault{"setdefault", "setdefault(key, value)", "the text `value` for a sample that has none of these",
                           make_setdefault};
const PpOpKind kStrfmt{"strfmt", "strfmt(template[, to=text])",
                       "\"answer en {question}\" with the texts that it names; {label} is the class's number; {{ and }} are "
                       "braces; of several texts each "
                       "becomes one",
                       make_strfmt};
const PpOpKind kKeep{"keep", "keep(image, NAME, …)", "of texts and rows of ids only these", make_keep};
const PpOpKind kDrop{"drop", "drop(NAME, …)", "all texts and rows of ids but these", make_drop};

}  // namespace tessera::data
