#pragma once
// A chain's rows of token ids for one sample after another, outside of a loader.

#include <span>
#include <string>
#include <vector>

#include "data/source.h"
#include "data/transform/pp.h"

namespace tessera::data {

// The texts that a chain reads, of one sample after another.
class TakenTexts {
 public:
  // Texts of the sample at places that find_texts() gave, borrowed from it and from this.
  const std::vector<TextValues>& take(const std::vector<size_t>& places, const Sample& sample);

 private:
  std::vector<TextValues> values_;
  std::string label_;
};

class TokenRows {
 public:
  // Both must outlive this. Throws as find_texts does.
  TokenRows(const Pp& pp, const Source& source);
  // Rows and cut() are those of `sample` from then on, unless it says why there are none.
  [[nodiscard]] image::SampleError make(const Sample& sample, const SampleKey& key);
  size_t size() const { return rows_.size(); }  // of the chain's token_fields()
  std::span<const int32_t> row(size_t field) const { return rows_[field]; }
  int64_t cut() const { return cut_; }

 private:
  const Pp& pp_;
  std::vector<size_t> places_;
  TakenTexts texts_;
  std::vector<std::vector<int32_t>> rows_;
  std::vector<int32_t*> starts_;
  int64_t cut_ = 0;
};

}  // namespace tessera::data
