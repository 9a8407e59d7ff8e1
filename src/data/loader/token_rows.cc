#include "data/loader/token_rows.h"

namespace tessera::data {

const std::vector<TextValues>& TakenTexts::take(const std::vector<size_t>& places, const Sample& sample) {
  values_.clear();
  for (const size_t place : places) {
    if (place < sample.texts.size()) {
      values_.push_back(sample.texts[place]);
    } else {
      label_ = std::to_string(sample.label);
      values_.push_back({label_});
    }
  }
  return values_;
}

TokenRows::TokenRows(const Pp& pp, const Source& source) : pp_(pp), places_(find_texts(pp, source)) {
  for (const TokenField& field : pp.token_fields()) rows_.emplace_back(static_cast<size_t>(field.length));
  for (std::vector<int32_t>& row : rows_) starts_.push_back(row.data());
}

image::SampleError TokenRows::make(const Sample& sample, const SampleKey& key) {
  return pp_.run_texts(texts_.take(places_, sample), key, starts_.data(), cut_);
}

}  // namespace tessera::data
