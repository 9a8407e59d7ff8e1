#pragma once
// Files of images decoded whole, for caches of decoded pictures.

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "image/codec/decode.h"

namespace tessera::data {

// Thread-safe.
class WholePictures {
 public:
  explicit WholePictures(const image::DecodeLimits& limits) : limits_(limits) {}

  // Bytes of the picture as a pixels file (image/codec/pixels_file.h), by the file's header; nothing where that cannot be read.
  std::optional<size_t> size_of(ByteSpan file) const;
  // The picture as a pixels file. False where it can't be decoded within the limits, or only with damage: what a chain makes of damage
  // may depend on the part that it wants.
  bool decode(ByteSpan file, PaddedBuffer& out) const;

 private:
  struct Worker {
    explicit Worker(const image::DecodeLimits& limits) : decoder(limits) {}
    image::Decoder decoder;
    image::Image image;
  };
  std::unique_ptr<Worker> take_worker() const;
  void give_back(std::unique_ptr<Worker> worker) const;

  image::DecodeLimits limits_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> workers_;  // that are free
};

}  // namespace tessera::data
