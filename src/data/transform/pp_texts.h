#pragma once
// What the text ops of a chain work on: names while it is parsed, texts while it runs.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/transform/pp.h"

namespace tessera {
class CallReader;
}

namespace tessera::data {

// The texts and arrays of ids that are there at a place in a chain. What no op has made is taken to be the source's. All fail
// at the call with a message where an op cannot have what it asks for.
class PpTextNames {
 public:
  void read(const std::string& name, const CallReader& call);
  void make(const std::string& name, const CallReader& call);
  void make_tokens(TokenField field, const CallReader& call);
  // From here on nobody can read it.
  void drop(const std::string& name, const CallReader& call);
  // Drops all but these. "image", "label" and "labels" may be named whether or not there are arrays of ids of that name.
  void keep(const std::vector<std::string>& names, const CallReader& call);

  const std::vector<std::string>& inputs() const { return inputs_; }  // of the source
  const std::vector<TokenField>& tokens() const { return tokens_; }

 private:
  bool has_tokens(std::string_view name) const;
  std::vector<std::string> inputs_, made_, gone_;
  std::vector<TokenField> tokens_;
  bool only_made_ = false;  // after keep: the source's texts are gone, but for those in made_
};

// The texts of one sample.
class PpTexts {
 public:
  // `values` of the texts `inputs`; ids of `fields` are written to `tokens`.
  PpTexts(const std::vector<std::string>& inputs, const std::vector<TextValues>& values, const std::vector<TokenField>& fields,
          int32_t* const* tokens);
  const std::vector<std::string>& get(std::string_view name) const;
  void set(std::string_view name, std::vector<std::string> values);
  // As row `row` of the array `name`. Nothing where the chain drops the array further on.
  void write(std::string_view name, const TextEncoder& encoder, std::string_view text, int64_t row = 0);
  int64_t cut() const { return cut_; }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> values_;
  const std::vector<TokenField>& fields_;
  int32_t* const* tokens_;
  int64_t cut_ = 0;
};

}  // namespace tessera::data
