#include "data/cache/whole_pictures.h"

#include <utility>

#include "image/codec/exif.h"
#include "image/codec/pixels_file.h"

namespace tessera::data {

std::optional<size_t> WholePictures::size_of(ByteSpan file) const {
  std::unique_ptr<Worker> worker = take_worker();
  image::ImageInfo info;
  const bool known = !worker->decoder.probe(file, info);
  give_back(std::move(worker));
  return known ? std::optional(image::pixels_file_size(info.width, info.height)) : std::nullopt;
}

bool WholePictures::decode(ByteSpan file, PaddedBuffer& out) const {
  std::unique_ptr<Worker> worker = take_worker();
  const bool failed = worker->decoder.decode(file, worker->image).has_value();
  const image::Repairs repairs = worker->decoder.repairs();
  const bool whole = !failed && !repairs.has(image::Repair::kDamaged);
  if (whole) {
    out.reset(image::pixels_file_size(worker->image.width(), worker->image.height()));
    image::write_pixels_file(worker->image.view(), image::exif_orientation(file), repairs, out.data());
  }
  give_back(std::move(worker));
  return whole;
}

std::unique_ptr<WholePictures::Worker> WholePictures::take_worker() const {
  const std::lock_guard lock(mutex_);
  if (workers_.empty()) return std::make_unique<Worker>(limits_);
  std::unique_ptr<Worker> worker = std::move(workers_.back());
  workers_.pop_back();
  return worker;
}

void WholePictures::give_back(std::unique_ptr<Worker> worker) const {
  const std::lock_guard lock(mutex_);
  workers_.push_back(std::move(worker));
}

}  // namespace tessera::data
