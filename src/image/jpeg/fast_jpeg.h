#pragma once
// A JPEG decoder for the usual files (header.h), to the same pixels as libjpeg-turbo with its accurate integer DCT and
// fancy upsampling, bit for bit. It is quicker: Huffman decoding, which takes most of the time, looks up two coefficients at
// once, and outside a region it does nothing else. It gives up on every file that isn't as it should be, so that libjpeg alone
// decides what damage means. Two images that are decoded together take less time than one after the other (blocks.h).

#include <memory>

#include "image/image.h"
#include "image/jpeg/header.h"

namespace tessera::image {

// Keeps its memory and the tables of the last file: one for each image in progress.
class FastJpeg {
 public:
  FastJpeg();
  ~FastJpeg();

  // Takes its Huffman tables from `other`'s memory from now on, and the other way round: most files have the same ones, and two
  // images read in turns then leave more room in the cache. Both must stay in one thread.
  void share_tables(FastJpeg& other);

  // Begins to decode all of the file whose header read_usual_header() read, or the pixels inside `box` when there is one, which
  // must lie in the image. All arguments are borrowed until done(), which it may be at once.
  void start(ByteSpan file, const JpegHeader& header, const Box* box, Image& image);
  // Goes on with the first, and the second if there is one, until one is done. Both must be started and not done.
  static void run(FastJpeg& first, FastJpeg* second);
  bool done() const;
  // Ends whatever was in progress, with ok() false.
  void abandon();
  // Whether the image has the pixels. False leaves it in any state, and libjpeg should decode the file.
  bool ok() const;

 private:
  struct State;
  struct SharedTables;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::image
