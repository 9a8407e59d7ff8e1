#include "data/transform/pp_texts.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void check_name(const std::string& name, const CallReader& call) {
  if (name.empty()) call.fail("a text has no name");
  if (name == "image") call.fail("`image` is the image, and this works on texts");
}

}  // namespace

bool TokenField::operator==(const TokenField& other) const {
  const TextEncoderOptions &mine = encoder->options(), &theirs = other.encoder->options();
  return name == other.name && length == other.length && vocabulary == other.vocabulary && pad == other.pad &&
         mine.eos == theirs.eos && mine.bos == theirs.bos && mine.lower == theirs.lower &&
         encoder->tokenizer().fingerprint() == other.encoder->tokenizer().fingerprint();
}

bool PpTextNames::has_tokens(std::string_view name) const {
  return std::ranges::find(tokens_, name, &TokenField::name) != tokens_.end();
}

void PpTextNames::read(const std::string& name, const CallReader& call) {
  check_name(name, call);
  if (has_tokens(name)) call.fail(fmt::format("`{}` is an array of ids by now, not a text", name));
  if (holds(made_, name)) return;
  if (only_made_ || holds(gone_, name)) call.fail(fmt::format("the text `{}` was dropped before", name));
  if (!holds(inputs_, name)) inputs_.push_back(name);
}

void PpTextNames::make(const std::string& name, const CallReader& call) {
  check_name(name, call);
  if (has_tokens(name)) call.fail(fmt::format("`{}` is an array of ids by now: give the text another name", name));
  if (!holds(made_, name)) made_.push_back(name);
}

void PpTextNames::make_tokens(TokenField field, const CallReader& call) {
  check_name(field.name, call);
  if (has_tokens(field.name)) {
    call.fail(fmt::format("there is an array of ids `{}` already", field.name), "give this one another name: to=NAME");
  }
  std::erase(made_, field.name);
  tokens_.push_back(std::move(field));
}

void PpTextNames::drop(const std::string& name, const CallReader& call) {
  check_name(name, call);
  std::erase(made_, name);
  std::erase_if(tokens_, [&](const TokenField& field) { return field.name == name; });
  gone_.push_back(name);
}

void PpTextNames::keep(const std::vector<std::string>& names, const CallReader& call) {
  if (!holds(names, "image")) call.fail("the image must stay", "keep(image, …)");
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    if (name == "image" || name == "label" || name == "labels" || has_tokens(name)) continue;
    if (!holds(made_, name)) read(name, call);
    kept.push_back(name);
  }
  made_ = std::move(kept);
  only_made_ = true;
  std::erase_if(tokens_, [&](const TokenField& field) { return !holds(names, field.name); });
}

PpTexts::PpTexts(const std::vector<std::string>& inputs, const std::vector<TextValues>& values,
                 const std::vector<TokenField>& fields, int32_t* const* tokens)
    : fields_(fields), tokens_(tokens) {
  TESSERA_CHECK(inputs.size() == values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values_.emplace_back(inputs[i], std::vector<std::string>(values[i].begin(), values[i].end()));
  }
}

const std::vector<std::string>& PpTexts::get(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, &decltype(values_)::value_type::first);
  TESSERA_CHECK(found != values_.end());
  return found->second;
}

void PpTexts::set(std::string_view name, std::vector<std::string> values) {
  const auto found = std::ranges::find(values_, name, &decltype(values_)::value_type::first);
  if (found != values_.end()) {
    found->second = std::move(values);
  } else {
    values_.emplace_back(name, std::move(values));
  }
}

void PpTexts::write(std::string_view name, const TextEncoder& encoder, std::string_view text, int64_t row) {
  const auto field = std::ranges::find(fields_, name, &TokenField::name);
  if (field == fields_.end()) return;
  if (!encoder.encode(text, tokens_[field - fields_.begin()] + row * encoder.options().length)) ++cut_;
}

std::vector<size_t> find_texts(const Pp& pp, const Source& source, std::string_view where) {
  const std::vector<std::string> fields = source.text_fields();
  std::vector<size_t> places;
  for (const std::string& name : pp.text_inputs()) {
    const auto found = std::ranges::find(fields, name);
    const bool is_class = name == "label" && !source.class_names().empty() && !source.multi_label();
    if (found == fields.end() && !is_class) {
      const std::string message = fmt::format("the chain reads the text `{}`, which `{}` does not have", name, source.name());
      throw usage_error(
          message, std::string(where),
          fields.empty() ? "it has no texts: name them in the source's call with text=…" : suggest_name(name, fields));
    }
    places.push_back(static_cast<size_t>(found - fields.begin()));
  }
  return places;
}

}  // namespace tessera::data
