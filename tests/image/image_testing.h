#pragma once
// Pictures and encoders for the tests of src/image and src/data.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "image/image.h"

namespace tessera::image::testing {

// tools/references/shared/formula.py's image(name, height, width): noise that every reference script can make too.
Image formula_image(const std::string& name, int width, int height);
// Smooth gradients with a few edges, so that a JPEG of it is small and looks like a photograph.
Image photo(int width, int height, uint32_t seed = 1);

struct JpegOptions {
  int quality = 90;
  int horizontal = 2, vertical = 2;  // chroma subsampling
  bool grey = false, progressive = false, optimised = false, arithmetic = false;
  bool rgb = false;  // stored as RGB
  int restart_rows = 0;
  unsigned restart_mcus = 0;
};
std::vector<uint8_t> encode_jpeg(const Image& image, const JpegOptions& options = {});
std::vector<uint8_t> encode_webp(const Image& image, bool lossless);
std::vector<uint8_t> png_bytes(const Image& image);

std::vector<uint8_t> read_file(const std::string& path);
void write_file(const std::filesystem::path& path, const std::vector<uint8_t>& bytes);

std::vector<uint8_t> pixels(const ImageView& view);

// Runs `body` on every instruction set of this processor that the vector code is compiled for.
void on_every_target(const std::function<void()>& body);

// A fresh empty directory, removed with everything in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace tessera::image::testing
