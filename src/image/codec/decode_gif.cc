// The first frame of a GIF by giflib.

#include <fmt/format.h>
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "image/codec/codecs.h"

namespace tessera::image {
namespace {

struct Input {
  ByteSpan bytes;
  size_t at = 0;
};

int read(GifFileType* gif, GifByteType* to, int count) {
  Input& input = *static_cast<Input*>(gif->UserData);
  const size_t length = std::min(static_cast<size_t>(std::max(count, 0)), input.bytes.size() - input.at);
  if (length > 0) std::memcpy(to, input.bytes.data() + input.at, length);
  input.at += length;
  return static_cast<int>(length);
}

struct Close {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using Gif = std::unique_ptr<GifFileType, Close>;

// giflib's codes don't tell an end of the data from a read that went well and gave nonsense.
DecodeFailure gif_error(const Input& input, int code) {
  if (code == D_GIF_ERR_NOT_ENOUGH_MEM) throw std::bad_alloc();
  if (input.at == input.bytes.size()) return {"truncated: the GIF data ends before the image does"};
  const char* words = GifErrorString(code);
  return {fmt::format("damaged GIF: {}", words && code != D_GIF_ERR_READ_FAILED ? words : "its first frame can't be read")};
}
DecodeFailure gif_error(const GifFileType* gif) { return gif_error(*static_cast<const Input*>(gif->UserData), gif->Error); }

SampleError open(Input& input, Gif& gif) {
  int code = 0;
  gif.reset(DGifOpen(&input, read, &code));
  if (!gif) return gif_error(input, code);
  return std::nullopt;
}

// Skips the blocks of an extension. Of the one that says how the frame is drawn, takes its transparent colour.
SampleError read_extension(GifFileType* gif, int& transparent) {
  int code = 0;
  GifByteType* block = nullptr;
  if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return gif_error(gif);
  GraphicsControlBlock control;
  if (code == GRAPHICS_EXT_FUNC_CODE && block && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
    transparent = control.TransparentColor;
  }
  while (block) {
    if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return gif_error(gif);
  }
  return std::nullopt;
}

// To where the first frame's pixels begin.
SampleError find_frame(GifFileType* gif, int& transparent) {
  for (;;) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &record) == GIF_ERROR) return gif_error(gif);
    if (record == EXTENSION_RECORD_TYPE) {
      if (SampleError failed = read_extension(gif, transparent)) return failed;
    } else if (record == IMAGE_DESC_RECORD_TYPE) {
      if (DGifGetImageDesc(gif) == GIF_ERROR) return gif_error(gif);
      return std::nullopt;
    } else if (record == TERMINATE_RECORD_TYPE) {
      return DecodeFailure{"damaged GIF: it has no frame"};
    }
  }
}

// The picture has room for the frame, whatever the file says of its size.
int picture_width(const GifFileType& gif) { return std::max(gif.SWidth, gif.Image.Left + gif.Image.Width); }
int picture_height(const GifFileType& gif) { return std::max(gif.SHeight, gif.Image.Top + gif.Image.Height); }

// Colours of the frame as red, green, blue: its own, those of the file, or grey. What a table lacks is black.
using Palette = std::array<std::array<uint8_t, 3>, 256>;

Palette read_palette(const GifFileType& gif) {
  Palette palette{};
  const ColorMapObject* colours = gif.Image.ColorMap ? gif.Image.ColorMap : gif.SColorMap;
  for (size_t i = 0; i < palette.size(); ++i) {
    const auto grey = static_cast<uint8_t>(i);
    if (!colours) palette[i] = {grey, grey, grey};
    if (!colours || static_cast<int>(i) >= colours->ColorCount) continue;
    const GifColorType& colour = colours->Colors[i];
    palette[i] = {colour.Red, colour.Green, colour.Blue};
  }
  return palette;
}

void paint(const uint8_t* indices, int count, const Palette& palette, uint8_t* to) {
  for (int x = 0; x < count; ++x, to += 3) std::memcpy(to, palette[indices[x]].data(), 3);
}

SampleError decode_frame(GifFileType* gif, const Palette& palette, DecodeMeter& meter, Image& image) {
  struct Pass {
    int first, step;
  };
  static constexpr std::array<Pass, 4> kInterlaced{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
  static constexpr std::array<Pass, 1> kInOrder{{{0, 1}}};
  const GifImageDesc& frame = gif->Image;
  std::vector<uint8_t> row(static_cast<size_t>(frame.Width));
  const auto passes = frame.Interlace ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kInOrder);
  for (const Pass& pass : passes) {
    for (int y = pass.first; y < frame.Height; y += pass.step) {
      if (DGifGetLine(gif, row.data(), frame.Width) == GIF_ERROR) return gif_error(gif);
      paint(row.data(), frame.Width, palette, image.row(frame.Top + y) + 3 * static_cast<ptrdiff_t>(frame.Left));
      if (const char* reason = meter.over()) return DecodeFailure{reason};
    }
  }
  return std::nullopt;
}

}  // namespace

SampleError probe_gif(ByteSpan bytes, ImageInfo& info) {
  Input input{bytes};
  Gif gif;
  int transparent = NO_TRANSPARENT_COLOR;
  if (SampleError failed = open(input, gif)) return failed;
  if (SampleError failed = find_frame(gif.get(), transparent)) return failed;
  info.width = picture_width(*gif);
  info.height = picture_height(*gif);
  return std::nullopt;
}

SampleError decode_gif(ByteSpan bytes, DecodeMeter& meter, Image& image, Repairs& repairs) {
  Input input{bytes};
  Gif gif;
  int transparent = NO_TRANSPARENT_COLOR;
  meter.start();
  if (SampleError failed = open(input, gif)) return failed;
  if (SampleError failed = find_frame(gif.get(), transparent)) return failed;
  const int width = picture_width(*gif), height = picture_height(*gif);
  if (SampleError failed = meter.check_size(width, height)) return failed;
  if (SampleError failed = meter.check_bytes(double{Image::kChannels} * width * height)) return failed;
  if (gif->Image.Width <= 0 || gif->Image.Height <= 0) return DecodeFailure{"damaged GIF: its first frame is empty"};
  const Palette palette = read_palette(*gif);
  if (transparent != NO_TRANSPARENT_COLOR) repairs.add(Repair::kAlpha);
  image.reset(width, height);
  // Around the frame is what is transparent, or the first colour.
  const std::vector<uint8_t> around(static_cast<size_t>(width),
                                    static_cast<uint8_t>(transparent == NO_TRANSPARENT_COLOR ? 0 : transparent));
  for (int y = 0; y < height; ++y) paint(around.data(), width, palette, image.row(y));
  return decode_frame(gif.get(), palette, meter, image);
}

}  // namespace tessera::image
