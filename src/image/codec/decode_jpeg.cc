// What fast_jpeg.h leaves to libjpeg-turbo, through the libjpeg API. Errors leave the library by longjmp, so the functions
// that may be left that way hold no object with a destructor.

// clang-format off
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <new>

// jpeglib.h needs what <cstdio> declares.
#include <jpeglib.h>

#include <jerror.h>
// clang-format on

#include "base/error.h"
#include "image/codec/codecs.h"
#include "image/jpeg/fast_jpeg.h"

namespace tessera::image {
namespace {

// What fancy upsampling looks at around a pixel, and a pixel more where chroma is halved.
constexpr int kMarginColumns = 4;
constexpr int kMarginRows = 2;
constexpr int kRowsAtOnce = 16;

constexpr JOCTET kEndOfImage[] = {0xFF, JPEG_EOI};

struct ErrorManager {
  jpeg_error_mgr base;  // first, so that libjpeg's pointer to it is a pointer to the whole
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  bool over_limit;  // the message is the reason as it is
  bool out_of_memory;
};

// Called after every row of blocks of every scan.
struct Progress {
  jpeg_progress_mgr base;  // first, as above
  DecodeMeter* meter;
};

// The bytes in memory, whether libjpeg asked for more, and what it complained of.
struct Input {
  jpeg_source_mgr base;  // first, as above
  bool fill;             // DecodePolicy::fill_truncated
  bool ended, filled, damaged;
};
Input* input(j_decompress_ptr info) { return reinterpret_cast<Input*>(info->src); }

[[noreturn]] void leave(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  manager->base.format_message(info, manager->message);
  manager->out_of_memory = manager->base.msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(manager->jump, 1);
}

[[noreturn]] void leave_over_limit(j_common_ptr info, const char* reason) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  manager->over_limit = true;
  std::snprintf(manager->message, sizeof manager->message, "%s", reason);
  std::longjmp(manager->jump, 1);
}

void on_progress(j_common_ptr info) {
  DecodeMeter& meter = *reinterpret_cast<Progress*>(info->progress)->meter;
  if (const char* reason = meter.over()) leave_over_limit(info, reason);
  const int64_t most = meter.limits().scans;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= most) return;
  char reason[64];
  std::snprintf(reason, sizeof reason, "over the limit of %lld scans", static_cast<long long>(most));
  leave_over_limit(info, reason);
}

// Warnings are of damage that libjpeg papers over, as Pillow lets it. But once the data has ended, they mean that pixels are
// missing.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  Input* in = input(reinterpret_cast<j_decompress_ptr>(info));
  if (in->ended && !in->fill) leave(info);
  (in->ended ? in->filled : in->damaged) = true;
}

void ignore_output(j_common_ptr) {}
void ignore_source(j_decompress_ptr) {}

// Many files lack only the end marker, so it is supplied: whatever else is missing then shows as a warning. Not so in a file of
// several scans, where whole scans could be missing. (Before the first scan jpeg_has_multiple_scans leaves with an error.)
boolean end_input(j_decompress_ptr info) {
  Input* in = input(info);
  in->ended = true;
  if (jpeg_has_multiple_scans(info)) {
    if (!in->fill) leave(reinterpret_cast<j_common_ptr>(info));
    in->filled = true;
  }
  in->base.next_input_byte = kEndOfImage;
  in->base.bytes_in_buffer = sizeof kEndOfImage;
  return TRUE;
}

void skip_input(j_decompress_ptr info, long count) {
  jpeg_source_mgr& source = input(info)->base;
  const size_t step = std::min(static_cast<size_t>(std::max(0L, count)), source.bytes_in_buffer);
  source.next_input_byte += step;
  source.bytes_in_buffer -= step;
}

DecodeFailure jpeg_error(const ErrorManager& errors, const Input& in) {
  if (errors.out_of_memory) throw std::bad_alloc();
  if (errors.over_limit) return {errors.message};
  if (in.ended) return {"truncated: the JPEG data ends before the image does"};
  return {fmt::format("damaged JPEG: {}", errors.message)};
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info;
  ErrorManager errors;
  Input in;
  PaddedBuffer cmyk;  // kRowsAtOnce rows of four channels
  FastJpeg usual;
  bool library_only = false;

  Progress progress;

  struct Request {
    ByteSpan bytes;
    DecodeMeter* meter = nullptr;
    std::optional<Box> box;
    Image* storage = nullptr;
    DecodePolicy policy = {};
  };
  Request request;  // what start() was asked for
  JpegHeader header;
  Repairs repairs;

  SampleError decode_by_library(ImageView& region);

  double memory() const;

  // Runs body(); false when libjpeg gave up, with the reason in `errors`.
  template <class Body>
  bool guarded(Body body) {
    if (setjmp(errors.jump)) {
      jpeg_abort_decompress(&info);
      return false;
    }
    body();
    return true;
  }

  // Made anew for every file: libjpeg would keep the tables of one for the next, and a file that lacks them would be decoded
  // with what came before it.
  void read_header(ByteSpan bytes) {
    errors.over_limit = errors.out_of_memory = false;
    jpeg_destroy_decompress(&info);
    jpeg_create_decompress(&info);
    info.src = &in.base;
    info.progress = &progress.base;
    in.fill = request.policy.fill_truncated;
    in.ended = in.filled = in.damaged = false;
    in.base.next_input_byte = bytes.data();
    in.base.bytes_in_buffer = bytes.size();
    jpeg_read_header(&info, TRUE);
  }

  bool has_ink() const { return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK; }
  void read_rows(Image& storage);
  void read_ink_rows(Image& storage);
  void convert_ink(uint8_t* to, const uint8_t* from, size_t pixels) const;
};

// The pixels, and of a file in several scans all coefficients.
double JpegDecoder::State::memory() const {
  double bytes = double{Image::kChannels} * info.image_width * info.image_height;
  if (!jpeg_has_multiple_scans(const_cast<jpeg_decompress_struct*>(&info))) return bytes;
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    bytes += double{DCTSIZE2 * sizeof(JCOEF)} * component.width_in_blocks * component.height_in_blocks;
  }
  return bytes;
}

// Rows from the decoder's current one until `storage` is full.
void JpegDecoder::State::read_rows(Image& storage) {
  JSAMPROW rows[kRowsAtOnce];
  for (int y = 0; y < storage.height();) {
    const int count = std::min(kRowsAtOnce, storage.height() - y);
    for (int i = 0; i < count; ++i) rows[i] = storage.row(y + i);
    y += static_cast<int>(jpeg_read_scanlines(&info, rows, static_cast<JDIMENSION>(count)));
  }
}

void JpegDecoder::State::read_ink_rows(Image& storage) {
  JSAMPROW rows[kRowsAtOnce];
  const size_t row_bytes = static_cast<size_t>(storage.width()) * 4;
  for (int i = 0; i < kRowsAtOnce; ++i) rows[i] = cmyk.data() + static_cast<size_t>(i) * row_bytes;
  for (int y = 0; y < storage.height();) {
    const int count = std::min(kRowsAtOnce, storage.height() - y);
    const int got = static_cast<int>(jpeg_read_scanlines(&info, rows, static_cast<JDIMENSION>(count)));
    for (int i = 0; i < got; ++i) convert_ink(storage.row(y + i), rows[i], static_cast<size_t>(storage.width()));
    y += got;
  }
}

void JpegDecoder::State::convert_ink(uint8_t* to, const uint8_t* from, size_t pixels) const {
  const unsigned flip = info.saw_Adobe_marker ? 0 : 255;  // Adobe stores 255 - ink
  for (size_t i = 0; i < pixels; ++i, to += 3, from += 4) {
    const unsigned k = from[3] ^ flip;
    for (int c = 0; c < 3; ++c) to[c] = multiply_255(from[c] ^ flip, k);
  }
}

JpegDecoder::JpegDecoder(bool library_only) : state_(new State) {
  state_->library_only = library_only;
  jpeg_decompress_struct& info = state_->info;
  info.err = jpeg_std_error(&state_->errors.base);
  info.err->error_exit = leave;
  info.err->emit_message = on_message;
  info.err->output_message = ignore_output;
  info.mem = nullptr;
  jpeg_source_mgr& source = state_->in.base;
  source.init_source = ignore_source;
  source.fill_input_buffer = end_input;
  source.skip_input_data = skip_input;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = ignore_source;
  state_->progress.base.progress_monitor = on_progress;
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->info); }

SampleError JpegDecoder::probe(ByteSpan bytes, const DecodeMeter& meter, ImageInfo& info) {
  State& s = *state_;
  DecodeMeter own = meter;
  s.progress.meter = &own;
  if (JpegHeader header; !s.library_only && read_usual_header(bytes, header)) {
    info.width = header.width;
    info.height = header.height;
    return meter.check_size(info.width, info.height);
  }
  if (!s.guarded([&] { s.read_header(bytes); })) return jpeg_error(s.errors, s.in);
  info.width = static_cast<int>(s.info.image_width);
  info.height = static_cast<int>(s.info.image_height);
  jpeg_abort_decompress(&s.info);
  return meter.check_size(info.width, info.height);
}

void JpegDecoder::start(ByteSpan bytes, DecodeMeter& meter, const Box* box, Image& storage, const DecodePolicy& policy) {
  State& s = *state_;
  s.request = {bytes, &meter, box ? std::optional(*box) : std::nullopt, &storage, policy};
  s.repairs = {};
  abandon();
  if (s.library_only || !read_usual_header(bytes, s.header)) return;
  if (meter.check_size(s.header.width, s.header.height)) return;
  if (meter.check_bytes(double{Image::kChannels} * s.header.width * s.header.height)) return;
  s.usual.start(bytes, s.header, box, storage);
}

void JpegDecoder::abandon() { state_->usual.abandon(); }
bool JpegDecoder::decoding() const { return !state_->usual.done(); }

void JpegDecoder::decode_on(JpegDecoder& first, JpegDecoder* second) {
  FastJpeg::run(first.state_->usual, second ? &second->state_->usual : nullptr);
}

SampleError JpegDecoder::finish(ImageView& region) {
  TESSERA_CHECK(!decoding());
  if (!state_->usual.ok()) return state_->decode_by_library(region);
  region = state_->request.storage->view();
  return std::nullopt;
}

Repairs JpegDecoder::repairs() const { return state_->repairs; }

void JpegDecoder::share_tables(JpegDecoder& other) { state_->usual.share_tables(other.state_->usual); }

SampleError JpegDecoder::decode(ByteSpan bytes, DecodeMeter& meter, const Box* box, Image& storage, ImageView& region) {
  start(bytes, meter, box, storage);
  if (decoding()) decode_on(*this, nullptr);
  return finish(region);
}

SampleError JpegDecoder::State::decode_by_library(ImageView& region) {
  progress.meter = request.meter;
  request.meter->start();
  if (!guarded([&] { read_header(request.bytes); })) return jpeg_error(errors, in);
  const int width = static_cast<int>(info.image_width), height = static_cast<int>(info.image_height);
  SampleError failed = request.meter->check_size(width, height);
  if (!failed) failed = request.meter->check_bytes(memory());
  if (failed) {
    jpeg_abort_decompress(&info);
    return failed;
  }
  const Box whole{0, 0, width, height};
  const Box want = request.box.value_or(whole);
  const bool all = want == whole;

  // Fancy upsampling looks at neighbours and treats the crop's edge as the image's: a margin keeps the pixels inside exact.
  JDIMENSION left = static_cast<JDIMENSION>(std::max(0, want.x - kMarginColumns));
  JDIMENSION columns = static_cast<JDIMENSION>(std::min(width, want.x + want.width + kMarginColumns)) - left;
  const int top = std::max(0, want.y - kMarginRows);
  const bool ink = has_ink();
  const bool started = guarded([&] {
    info.dct_method = JDCT_ISLOW;
    info.do_fancy_upsampling = TRUE;
    info.out_color_space = ink ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info);
    if (static_cast<int>(columns) < width) jpeg_crop_scanline(&info, &left, &columns);
    if (top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(top));
  });
  if (!started) return jpeg_error(errors, in);
  request.storage->reset(static_cast<int>(columns), want.y + want.height - top);
  if (ink) cmyk.reset(static_cast<size_t>(columns) * 4 * kRowsAtOnce);
  const bool read = guarded([&] {
    ink ? read_ink_rows(*request.storage) : read_rows(*request.storage);
    if (all) {
      jpeg_finish_decompress(&info);
    } else {
      jpeg_abort_decompress(&info);
    }
  });
  if (!read) return jpeg_error(errors, in);
  if (ink) repairs.add(Repair::kInk);
  if (in.damaged) repairs.add(Repair::kDamaged);
  if (in.filled) repairs.add(Repair::kFilled);
  region = request.storage->view().crop({want.x - static_cast<int>(left), want.y - top, want.width, want.height});
  return std::nullopt;
}

}  // namespace tessera::image
