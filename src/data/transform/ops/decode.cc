// decode: the file's bytes become an image of whatever size it has.
//   exif=apply       is Pillow's ImageOps.exif_transpose; ignore, the default, is what Pillow and TensorFlow do unasked
//   truncated=fill   is Pillow's LOAD_TRUNCATED_IMAGES, for JPEGs; with error they are unreadable files
#include "base/error.h"
#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

class Decode final : public PpOp {
 public:
  Decode(bool upright, image::DecodePolicy policy) : upright_(upright), policy_(policy) {}
  Kind kind() const override { return Kind::kDecode; }
  void infer(PpShape&, const CallReader&) const override {}
  image::SampleError apply(PpImage& image, Rng&) const override {
    if (image::SampleError failed = image.open(policy_)) return failed;
    return upright_ ? image.turn_upright() : std::nullopt;
  }

 private:
  bool upright_;
  image::DecodePolicy policy_;
};

// Whether the argument is the second of two words, the first of which is the default.
bool read_choice(CallReader& call, std::string_view name, const std::string& no, const std::string& yes) {
  const std::string word = call.text(name, no);
  if (word != no && word != yes) call.fail(fmt::format("{} is {} or {}, not `{}`", name, no, yes, word));
  return word == yes;
}

std::unique_ptr<PpOp> make_decode(CallReader& call) {
  const bool upright = read_choice(call, "exif", "ignore", "apply");
  return std::make_unique<Decode>(upright,
                                  image::DecodePolicy{.fill_truncated = read_choice(call, "truncated", "error", "fill")});
}

}  // namespace

const PpOpKind kDecode{
    "decode", "decode[(exif=ignore[, truncated=error])]",
    "the file's bytes to pixels; first in every chain; exif=apply turns pictures upright, truncated=fill takes JPEGs that end "
    "early, with the rest grey",
    make_decode};

}  // namespace tessera::data
