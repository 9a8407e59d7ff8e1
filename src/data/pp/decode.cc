// decode: the file's bytes become an image of whatever size it has.
#include "data/pp_op.h"

namespace tessera::data {
namespace {

class Decode final : public PpOp {
 public:
  Kind kind() const override { return Kind::kDecode; }
  void infer(PpShape&, const CallReader&) const override {}
  DecodeResult apply(PpImage& image, Rng&) const override { return image.open(); }
};

}  // namespace

std::unique_ptr<PpOp> make_decode(CallReader&) { return std::make_unique<Decode>(); }

}  // namespace tessera::data
