#pragma once
// Preprocessing: a chain of ops, written in a recipe as "decode | random_resized_crop(224) | flip_lr | value_range(-1, 1)",
// that turns the bytes of an image file into height x width x 3 uint8 pixels. The ops are listed in pp.def.
//
// Ops on a sample's texts stand in the same chain, at any place: "… | lower(caption) | tokenize(64, model=c4_en.model,
// key=caption)" makes an array of ids beside the image. A text is named as the source's field or as the op that made it names
// it.
//
// grayscale, value_range and normalise run on the device: a chain says what they amount to as a PixelScale, and the pixels travel as
// uint8. A chain is checked when it is parsed: its order, its sizes, and that what comes out has one fixed size. Crops and
// flips that follow `decode` cost no time of their own: only the part of a JPEG that the crop needs is decoded, and a flip
// after a resize is part of writing the result.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/activity.h"
#include "data/source.h"
#include "data/text/text_encoder.h"
#include "image/codec/decode.h"

namespace tessera::data {

// x = scale[c] * pixel + offset[c], with pixels in 0..255 and channels red, green, blue; or, where it is grey, of their one
// luminance, as Pillow's mode L has it: by the first scale and offset.
struct PixelScale {
  std::array<float, 3> scale{1, 1, 1}, offset{0, 0, 0};
  bool grey = false;
  int64_t channels() const { return grey ? 1 : 3; }
  bool operator==(const PixelScale&) const = default;
};

// Names one sample in one epoch. All random choices of a chain are functions of this and of the op's place in the chain.
// `view`: of those that the chain makes of an image; what comes before its split is the same for all.
struct SampleKey {
  uint64_t seed = 0, epoch = 0, sample = 0, view = 0;
};

// Time spent in the stages of the pipeline, in seconds; decode contains the crops fused with it, augment what else changes
// pixels.
struct StageSeconds {
  double read = 0, decode = 0, resize = 0, augment = 0;
  StageSeconds& operator+=(const StageSeconds& other);
  // Each with its name, in the order of the pipeline.
  std::vector<std::pair<const char*, double>> named() const;
};

// What a chain needs while it runs: decoders, tables, buffers. One for each thread; nothing in it changes the pixels.
class PpScratch {
 public:
  PpScratch();
  ~PpScratch();
  PpScratch(PpScratch&&) noexcept;
  PpScratch& operator=(PpScratch&&) noexcept;
  size_t bytes() const;
  StageSeconds seconds;    // added up by Pp::run
  image::Repairs repairs;  // of the sample that ran last
  // Of images to come (Decoder::set_limits).
  void set_limits(const image::DecodeLimits& limits, const std::atomic<bool>* stop);
  // What the thread is at; whoever begins a sample says so, and the chain which op it has come to.
  Activity& activity() { return *activity_; }
  const Activity& activity() const { return *activity_; }

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
  std::unique_ptr<Activity> activity_;
};

// How one sample came to be, for people to read.
struct PpTrace {
  int file_width = 0, file_height = 0;  // once it is turned
  int orientation = 1;                  // by EXIF, which was followed
  // The part of the file's picture that the result shows, in the picture's pixels; padding reaches past it. What a policy turns
  // or shears inside is not in it.
  double x = 0, y = 0, width = 0, height = 0;
  bool mirrored = false;
  std::vector<std::string> steps;  // "crop 120x90 at (10, 4)", "resize to 224x224, bilinear", "flip_lr", "Rotate 27.3 bicubic"
};

enum class PpUse { kTrain, kEval };

// Random erasing as the device does it after normalising: boxes of zeros, of one colour drawn for each, or of noise; colours
// and noise are standard normal. A sample's boxes are kEraseValues numbers each: top, left, bottom, right, red, green, blue; an
// empty one erases nothing.
struct Erasing {
  enum class Fill { kConst, kRand, kPixel };
  Fill fill = Fill::kConst;
  int64_t boxes = 1;
  bool operator==(const Erasing&) const = default;
};
inline constexpr int64_t kEraseValues = 7;

// An int32 [length] array that a chain makes of a sample's texts, beside its image.
struct TokenField {
  std::string name;
  int64_t length = 0;      // ids of a sample
  int64_t vocabulary = 0;  // 0 <= id < vocabulary
  int32_t pad = 0;         // fills up what is shorter, and rows without a sample
  std::shared_ptr<const TextEncoder> encoder;
  // Of the same name, and the same ids for every text.
  bool operator==(const TokenField& other) const;
};

class PpImage;
class PpOp;
class PpTextOp;

class Pp {
 public:
  // Throws a usage Error at `where` (the recipe key). A chain for evaluation may hold no random op.
  Pp(std::string_view text, PpUse use, std::string_view where = {});
  ~Pp();
  Pp(Pp&&) noexcept;
  Pp& operator=(Pp&&) noexcept;

  int width() const { return width_; }
  int height() const { return height_; }
  size_t image_bytes() const { return static_cast<size_t>(width_) * static_cast<size_t>(height_) * 3; }
  const PixelScale& pixel_scale() const { return pixel_scale_; }
  // How many rows of a batch stand for an image: 1, or what split says. Of these, view 0 is left as it is by the ops on pixels
  // behind split, and nothing of it is erased.
  int64_t views() const { return views_; }
  // Whether the chain has a value_range or normalise; without one the model sees 0..255.
  bool scales_values() const { return scales_values_; }
  const std::string& text() const { return text_; }

  // The arrays of ids that the chain makes, in the order of its ops.
  const std::vector<TokenField>& token_fields() const { return token_fields_; }
  // The texts of a source that it reads, each once.
  const std::vector<std::string>& text_inputs() const { return text_inputs_; }

  // Random erasing, which the device does after the affine map.
  const std::optional<Erasing>& erasing() const { return erasing_; }

  // `file` -> image_bytes() bytes at `out`. On an error `out` is undefined. Thread-safe.
  [[nodiscard]] image::SampleError run(ByteSpan file, const SampleKey& key, PpScratch& scratch, uint8_t* out,
                                       PpTrace* trace = nullptr) const;
  // `texts`, those of text_inputs(), -> token_fields()[i].length ids at tokens[i] each. `cut` is how many of these were longer.
  // Thread-safe.
  [[nodiscard]] image::SampleError run_texts(const std::vector<TextValues>& texts, const SampleKey& key, int32_t* const* tokens,
                                             int64_t& cut) const;
  // The sample's boxes to erase: erasing()->boxes times kEraseValues numbers.
  void draw_erasing(const SampleKey& key, float* out) const;

 private:
  friend class PpRun;
  [[nodiscard]] image::SampleError apply(PpImage& image, const SampleKey& key, size_t begin, size_t end) const;
  // The key of the op at place i: of this view, or of all.
  SampleKey key_at(SampleKey key, size_t i) const;

  std::string text_;
  std::vector<std::unique_ptr<PpOp>> ops_;  // on the image
  std::vector<const char*> names_;          // of these
  std::vector<std::unique_ptr<PpTextOp>> text_ops_;
  std::vector<std::string> text_inputs_;
  std::vector<TokenField> token_fields_;
  int width_ = 0, height_ = 0;
  PixelScale pixel_scale_;
  bool scales_values_ = false;
  std::optional<Erasing> erasing_;
  int64_t views_ = 1;
  size_t split_ = 0;       // where there are views: the place of the split
  size_t first_edit_ = 0;  // the op from which on pixels are needed
};

// Pp::run in steps, so that two samples' files can be decoded together, which takes less time than one after the other: start;
// decode_on until decoding() is over, with any partner that is decoding, or none; finish. Made once for many samples.
class PpRun {
 public:
  PpRun();
  ~PpRun();
  PpRun(PpRun&&) noexcept;

  // For runs that go on together.
  void share_tables(PpRun& other);
  PpScratch& scratch();
  const PpScratch& scratch() const;
  // What it is given is borrowed until finish(), or another start().
  void start(const Pp& pp, ByteSpan file, const SampleKey& key, uint8_t* out);
  void reset();  // nothing to do, whatever was started
  bool decoding() const;
  // Until one of them is no longer decoding.
  static void decode_on(PpRun& first, PpRun* second);
  [[nodiscard]] image::SampleError finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// For each of the chain's text_inputs(), its place among the source's text fields; one past them for `label`, which is the
// class's number where no text is named so. Throws a usage Error at `where` (the chain's recipe key) when the source has no
// such text.
std::vector<size_t> find_texts(const Pp& pp, const Source& source, std::string_view where = {});

// Names of all ops with how to write them and what they do, for help and documentation. METHOD in a usage stands for kPpMethod.
struct PpOpInfo {
  std::string name, usage, help;
};
inline constexpr std::string_view kPpMethod =
    "[, interpolation=bilinear][, library=pillow][, antialias=false]: Pillow's resize, which always antialiases (nearest, box, "
    "bilinear, hamming, bicubic, lanczos), or with library=tensorflow that of big_vision's op of the same name (nearest, "
    "bilinear, bicubic, area)";
std::vector<PpOpInfo> pp_ops();

}  // namespace tessera::data
