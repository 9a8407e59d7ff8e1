#include "data/cache/cache.h"
#include "data/cache/whole_pictures.h"
#include "data/forwarding_source.h"

namespace tessera::data {
namespace {

struct Picture {
  PaddedBuffer pixels;
  int32_t label = 0;
  std::vector<int32_t> labels;
  std::vector<std::vector<std::string>> texts;
};

int64_t bytes_of(size_t pixels, const Sample& sample) {
  size_t bytes = sizeof(Picture) + pixels + PaddedBuffer::kPadding + sample.labels.size() * sizeof(int32_t);
  for (const auto& field : sample.texts) {
    bytes += sizeof(field);
    for (const std::string_view text : field) bytes += sizeof(std::string) + text.size() + 1;
  }
  return static_cast<int64_t>(bytes);
}

void show(const Picture& picture, Sample& sample) {
  sample.image = picture.pixels.view();
  sample.label = picture.label;
  sample.labels = picture.labels;
  sample.texts.resize(picture.texts.size());
  for (size_t i = 0; i < picture.texts.size(); ++i) sample.texts[i].assign(picture.texts[i].begin(), picture.texts[i].end());
}

class RamCache final : public ForwardingSource {
 public:
  RamCache(std::shared_ptr<const Source> source, std::shared_ptr<ByteBudget> budget, const image::DecodeLimits& limits)
      : ForwardingSource(std::move(source)),
        budget_(std::move(budget)),
        decoder_(limits),
        pictures_(static_cast<size_t>(size())) {}
  ~RamCache() override {
    for (const auto& picture : pictures_) delete picture.load();
  }

  static int64_t table_bytes(const Source& source) {
    return source.size() * static_cast<int64_t>(sizeof(std::atomic<const Picture*>));
  }

  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    std::atomic<const Picture*>& place = pictures_[static_cast<size_t>(index)];
    const Picture* picture = place.load(std::memory_order_acquire);
    if (!picture) {
      if (std::optional<std::string> failed = source_->read(index, sample)) return failed;
      picture = keep(sample, place);
    }
    if (picture) show(*picture, sample);
    return std::nullopt;
  }

  void prefetch(int64_t index) const override {
    if (!pictures_[static_cast<size_t>(index)].load(std::memory_order_relaxed)) source_->prefetch(index);
  }

 private:
  // Null when the sample isn't kept.
  const Picture* keep(const Sample& sample, std::atomic<const Picture*>& place) const {
    const std::optional<size_t> size = decoder_.size_of(sample.image);
    if (!size) return nullptr;
    const int64_t bytes = bytes_of(*size, sample);
    if (!budget_->take(bytes)) return nullptr;
    const Picture* kept = decode(sample, place);
    if (!kept) budget_->give_back(bytes);
    return kept;
  }

  const Picture* decode(const Sample& sample, std::atomic<const Picture*>& place) const {
    auto picture = std::make_unique<Picture>();
    if (!decoder_.decode(sample.image, picture->pixels)) return nullptr;
    picture->label = sample.label;
    picture->labels = sample.labels;
    for (const auto& field : sample.texts) picture->texts.emplace_back(field.begin(), field.end());
    const Picture* expected = nullptr;  // another thread may have been quicker
    return place.compare_exchange_strong(expected, picture.get(), std::memory_order_acq_rel) ? picture.release() : nullptr;
  }

  std::shared_ptr<ByteBudget> budget_;
  WholePictures decoder_;
  mutable std::vector<std::atomic<const Picture*>> pictures_;  // by sample
};

}  // namespace

std::shared_ptr<const Source> cache_in_ram(std::shared_ptr<const Source> source, std::shared_ptr<ByteBudget> budget,
                                           const image::DecodeLimits& limits) {
  if (!budget->take(RamCache::table_bytes(*source))) return source;
  return std::make_shared<RamCache>(std::move(source), std::move(budget), limits);
}

}  // namespace tessera::data
