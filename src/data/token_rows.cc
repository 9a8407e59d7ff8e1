#include "data/token_rows.h"

namespace tessera::data {

TokenRows::TokenRows(const Pp& pp, const Source& source) : pp_(pp), places_(find_texts(pp, source)) {
  for (const TokenField& field : pp.token_fields()) rows_.emplace_back(static_cast<size_t>(field.length));
  for (std::vector<int32_t>& row : rows_) starts_.push_back(row.data());
}

DecodeResult TokenRows::make(const Sample& sample, const SampleKey& key) {
  texts_.clear();
  for (const size_t place : places_) texts_.push_back(sample.texts[place]);
  return pp_.run_texts(texts_, key, starts_.data(), cut_);
}

}  // namespace tessera::data
