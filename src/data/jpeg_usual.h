#pragma once
// A JPEG decoder for the usual files (jpeg_header.h), to the same pixels as libjpeg-turbo with its accurate integer DCT and
// fancy upsampling, bit for bit. It is quicker: Huffman decoding, which takes most of the time, looks up two coefficients at
// once, and outside a region it does nothing else. It gives up on every file that isn't as it should be, so that libjpeg alone
// decides what damage means.

#include <array>
#include <memory>

#include "data/image.h"
#include "data/jpeg_header.h"

namespace tessera::data {

// Keeps its memory and the tables of the last file: one for each thread.
class UsualJpeg {
 public:
  UsualJpeg();
  ~UsualJpeg();

  // All of the file whose header read_usual_header() read, or the pixels inside `box` when there is one, which must lie in the
  // image. True when `image` has them. False leaves it in any state, and libjpeg should decode the file.
  bool decode(Bytes file, const JpegHeader& header, const Box* box, Image& image);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::data
