#include <mutex>

#include "data/cache/cache.h"
#include "data/forwarding_source.h"
#include "image/codec/exif.h"
#include "image/codec/pixels_file.h"

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
        limits_(limits),
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
  struct Worker {
    explicit Worker(const image::DecodeLimits& limits) : decoder(limits) {}
    image::Decoder decoder;
    image::Image image;
  };

  // Null when the sample isn't kept.
  const Picture* keep(const Sample& sample, std::atomic<const Picture*>& place) const {
    std::unique_ptr<Worker> worker = take_worker();
    image::ImageInfo info;
    const Picture* kept = nullptr;
    if (!worker->decoder.probe(sample.image, info)) {
      const int64_t bytes = bytes_of(image::pixels_file_size(info.width, info.height), sample);
      if (budget_->take(bytes)) {
        kept = decode(sample, *worker, place);
        if (!kept) budget_->give_back(bytes);
      }
    }
    const std::lock_guard lock(mutex_);
    workers_.push_back(std::move(worker));
    return kept;
  }

  const Picture* decode(const Sample& sample, Worker& worker, std::atomic<const Picture*>& place) const {
    if (worker.decoder.decode(sample.image, worker.image)) return nullptr;
    // What a chain makes of damage may depend on the part that it wants.
    const image::Repairs repairs = worker.decoder.repairs();
    if (repairs.has(image::Repair::kDamaged)) return nullptr;
    auto picture = std::make_unique<Picture>();
    picture->pixels.reset(image::pixels_file_size(worker.image.width(), worker.image.height()));
    image::write_pixels_file(worker.image.view(), image::exif_orientation(sample.image), repairs, picture->pixels.data());
    picture->label = sample.label;
    picture->labels = sample.labels;
    for (const auto& field : sample.texts) picture->texts.emplace_back(field.begin(), field.end());
    const Picture* expected = nullptr;  // another thread may have been quicker
    return place.compare_exchange_strong(expected, picture.get(), std::memory_order_acq_rel) ? picture.release() : nullptr;
  }

  std::unique_ptr<Worker> take_worker() const {
    const std::lock_guard lock(mutex_);
    if (workers_.empty()) return std::make_unique<Worker>(limits_);
    std::unique_ptr<Worker> worker = std::move(workers_.back());
    workers_.pop_back();
    return worker;
  }

  std::shared_ptr<ByteBudget> budget_;
  image::DecodeLimits limits_;
  mutable std::vector<std::atomic<const Picture*>> pictures_;  // by sample
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> workers_;  // that are free
};

}  // namespace

std::shared_ptr<const Source> cache_in_ram(std::shared_ptr<const Source> source, std::shared_ptr<ByteBudget> budget,
                                           const image::DecodeLimits& limits) {
  if (!budget->take(RamCache::table_bytes(*source))) return source;
  return std::make_shared<RamCache>(std::move(source), std::move(budget), limits);
}

}  // namespace tessera::data
