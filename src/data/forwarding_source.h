#pragma once
// A source that says what another one says, for those that change one thing of it: caches, other labels.

#include <memory>
#include <utility>

#include "data/source.h"

namespace tessera::data {

// All but read() and prefetch(), which caches do in their own way.
class ForwardingSource : public Source {
 public:
  explicit ForwardingSource(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  int64_t size() const override { return source_->size(); }
  const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  std::optional<std::vector<int64_t>> class_sizes() const override { return source_->class_sizes(); }
  bool multi_label() const override { return source_->multi_label(); }
  std::optional<std::vector<int32_t>> labels() const override { return source_->labels(); }
  std::optional<std::vector<std::vector<int32_t>>> label_lists() const override { return source_->label_lists(); }
  std::vector<std::string> text_fields() const override { return source_->text_fields(); }
  std::vector<std::string> columns() const override { return source_->columns(); }
  std::optional<std::vector<std::optional<std::string>>> column(const std::string& name) const override {
    return source_->column(name);
  }
  std::string id(int64_t index) const override { return source_->id(index); }
  std::optional<uint64_t> stamp(int64_t index) const override { return source_->stamp(index); }
  std::optional<Hash128> fingerprint() const override { return source_->fingerprint(); }
  bool fill_pixels(int64_t index, std::span<uint8_t> pixels) const override { return source_->fill_pixels(index, pixels); }
  std::vector<int64_t> stretches() const override { return source_->stretches(); }
  SourceFacts facts() const override { return source_->facts(); }
  std::vector<std::string> shard_paths() const override { return source_->shard_paths(); }
  const std::string& name() const override { return source_->name(); }

 protected:
  std::shared_ptr<const Source> source_;
};

}  // namespace tessera::data
