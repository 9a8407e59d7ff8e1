#pragma once
// The header of a JPEG file (ITU-T T.81, Annex B) of the usual kind, the one that fast_jpeg.h decodes: sequential, Huffman
// coded, 8 bits, all components in one scan; grey, or YCbCr whose chroma has all or half of the rows and columns.

#include <cstddef>
#include <cstdint>

#include "image/image.h"

namespace tessera::image {

struct JpegHeader {
  struct Component {
    int quantisation = 0, dc = 0, ac = 0;  // numbers of its tables
  };
  int width = 0, height = 0;
  int components = 0;                // 1 or 3
  int horizontal = 1, vertical = 1;  // columns and rows of luma for one of chroma, 1 or 2
  Component component[3];
  int restart_interval = 0;  // MCUs; 0 for none
  size_t scan = 0;           // offset of the entropy-coded data

  // Tables as they stand in the file, which is borrowed: 64 steps in zigzag order, of two bytes each when `wide`; for each code
  // length 1..16 the number of codes, then their symbols.
  const uint8_t* quantisation[4] = {};
  bool wide[4] = {};
  const uint8_t* dc[4] = {};
  const uint8_t* ac[4] = {};
};

// False for every other kind, and for whatever libjpeg might refuse or mend. Where it is true, libjpeg reads the same header.
bool read_usual_header(ByteSpan bytes, JpegHeader& header);

}  // namespace tessera::image
