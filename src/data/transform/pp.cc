#include "data/transform/pp.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "config/other_words.h"
#include "data/transform/pp_op.h"
#include "data/transform/pp_scratch.h"

namespace tessera::data {
namespace {

constexpr uint64_t kOpSalt = 0x9E3779B97F4A7C15u, kViewSalt = 0xD1B54A32D192ED03u;

#define PP_OP(object) &object,
constexpr const PpOpKind* kOps[] = {
#include "data/transform/pp.def"
};
#undef PP_OP

const PpOpKind& find_op(const Call& call, std::string_view where) {
  std::vector<std::string> names;
  for (const PpOpKind* kind : kOps) {
    if (call.name == kind->name) return *kind;
    names.emplace_back(kind->name);
  }
  throw usage_error(fmt::format("unknown preprocessing op `{}`", call.name), std::string(where),
                    config::suggest_value(call.name, names));
}

// Where an argument is missing, or is called otherwise, the op's usage helps.
std::unique_ptr<PpOp> make_op(const PpOpKind& kind, CallReader& call) {
  try {
    return kind.make(call);
  } catch (const Error& error) {
    if (!error.help().empty()) throw;
    std::string usage = kind.usage;
    constexpr std::string_view kMethod = "METHOD";  // of which this is the first part
    if (const size_t at = usage.find(kMethod); at != std::string::npos)
      usage.replace(at, kMethod.size(), "[, interpolation=bilinear]");
    throw Error(error.code(), error.message(), error.where(), fmt::format("{}: {}", usage, kind.help));
  }
}

void check_place(const PpOp& op, bool first, bool after_values, bool erases, PpUse use, const CallReader& call) {
  if (op.kind() == PpOp::Kind::kText) return;
  const bool decodes = op.kind() == PpOp::Kind::kDecode;
  if (first && !decodes) call.fail("a chain starts with the file's bytes", "write `decode` before it");
  if (!first && decodes) call.fail("`decode` may only come first");
  if (after_values && op.kind() == PpOp::Kind::kPixels) {
    call.fail("it works on pixels, but value_range or normalise before it has left floating-point values",
              "move the value ops to the end of the chain");
  }
  if (erases) call.fail("nothing may follow random_erasing", "move it to the end of the chain");
  if (op.kind() == PpOp::Kind::kDevice && !after_values) {
    call.fail("it fills with normalised values, but nothing has normalised the pixels",
              "write value_range or normalise before it");
  }
  if (use == PpUse::kEval && op.random()) {
    call.fail("it is random, and an evaluation must see the same images every time",
              "use resize, resize_small or central_crop");
  }
}

// With the seed of the chain's op `i`.
SampleKey key_of(SampleKey key, size_t i) {
  key.seed ^= kOpSalt * (i + 1);
  return key;
}
// Text ops are numbered apart, so that they change nothing about the image.
SampleKey text_key_of(SampleKey key, size_t i) {
  key.seed ^= hash_name("text");
  return key_of(key, i);
}
// The stream of the chain's op `i` for a sample.
Rng rng_of(const SampleKey& key, size_t i) {
  const SampleKey own = key_of(key, i);
  return Rng(own.seed, own.epoch, own.sample);
}

}  // namespace

StageSeconds& StageSeconds::operator+=(const StageSeconds& other) {
  read += other.read;
  decode += other.decode;
  resize += other.resize;
  augment += other.augment;
  return *this;
}

std::vector<std::pair<const char*, double>> StageSeconds::named() const {
  return {{"read", read}, {"decode", decode}, {"resize", resize}, {"augment", augment}};
}

PpScratch::PpScratch() : state_(new State), activity_(new Activity) {}
PpScratch::~PpScratch() = default;
PpScratch::PpScratch(PpScratch&&) noexcept = default;
PpScratch& PpScratch::operator=(PpScratch&&) noexcept = default;

void PpScratch::set_limits(const image::DecodeLimits& limits, const std::atomic<bool>* stop) {
  state_->decoder.set_limits(limits, stop);
}

size_t PpScratch::bytes() const {
  return state_->decoded.capacity() + state_->images[0].capacity() + state_->images[1].capacity() +
         state_->resizer.scratch_bytes() + state_->tensorflow_resizer.scratch_bytes() + state_->canvas.bytes();
}

Pp::Pp(std::string_view text, PpUse use, std::string_view where) : text_(trim(text)) {
  if (text_.empty()) {
    throw usage_error("the preprocessing chain is empty", std::string(where), "the shortest one is \"decode | resize(224)\"");
  }
  PpShape shape;
  std::pair<int, int> split_size;
  for (const Call& call : parse_chain(text_, where)) {
    const PpOpKind& entry = find_op(call, where);
    CallReader reader(call, where);
    std::unique_ptr<PpOp> op = make_op(entry, reader);
    reader.finish();
    check_place(*op, ops_.empty(), shape.scales_values, shape.erasing.has_value(), use, reader);
    const bool whole = shape.views == 1;
    op->infer(shape, reader);
    if (whole && shape.views > 1) {
      split_ = ops_.size();
      split_size = {*shape.width, *shape.height};
    }
    if (op->kind() == PpOp::Kind::kText) {
      text_ops_.emplace_back(static_cast<PpTextOp*>(op.release()));
    } else {
      ops_.push_back(std::move(op));
      names_.push_back(entry.name);
    }
  }
  if (!shape.width || !shape.height) {
    throw usage_error(fmt::format("the images that leave `{}` have no fixed size, so they cannot form a batch", text_),
                      std::string(where),
                      "add resize(size), central_crop(size), random_crop(size) or random_resized_crop(size)");
  }
  if (shape.views > 1 && split_size != std::pair(*shape.width, *shape.height)) {
    throw usage_error(
        fmt::format("what follows split in `{}` changes the size of images, and the first view does without it", text_),
        std::string(where), "move crops and resizes before split");
  }
  views_ = shape.views;
  const auto edit = std::find_if(ops_.begin(), ops_.end(), [](const auto& op) { return op->edits(); });
  first_edit_ = static_cast<size_t>(edit - ops_.begin());
  width_ = *shape.width;
  height_ = *shape.height;
  pixel_scale_ = shape.affine;
  scales_values_ = shape.scales_values;
  erasing_ = shape.erasing;
  text_inputs_ = shape.texts.inputs();
  token_fields_ = shape.texts.tokens();
}

Pp::~Pp() = default;
Pp::Pp(Pp&&) noexcept = default;
Pp& Pp::operator=(Pp&&) noexcept = default;

SampleKey Pp::key_at(SampleKey key, size_t i) const {
  if (views_ > 1 && i > split_) key.seed ^= kViewSalt * key.view;
  return key;
}

image::SampleError Pp::apply(PpImage& image, const SampleKey& key, size_t begin, size_t end) const {
  for (size_t i = begin; i < end; ++i) {
    const bool left_out = views_ > 1 && i > split_ && key.view == 0 && ops_[i]->kind() == PpOp::Kind::kPixels;
    if (left_out) continue;
    image.enter(names_[i]);
    Rng rng = rng_of(key_at(key, i), i);
    if (image::SampleError failed = ops_[i]->apply(image, rng)) return failed;
  }
  return std::nullopt;
}

image::SampleError Pp::run(ByteSpan file, const SampleKey& key, PpScratch& scratch, uint8_t* out, PpTrace* trace) const {
  PpImage image(file, scratch, trace);
  if (image::SampleError failed = apply(image, key, 0, first_edit_)) return failed;
  image.start_decoding();
  if (image::SampleError failed = apply(image, key, first_edit_, ops_.size())) return failed;
  return image.write(out);
}

image::SampleError Pp::run_texts(const std::vector<TextValues>& texts, const SampleKey& key, int32_t* const* tokens,
                                 int64_t& cut) const {
  PpTexts values(text_inputs_, texts, token_fields_, tokens);
  for (size_t i = 0; i < text_ops_.size(); ++i) {
    if (image::SampleError failed = text_ops_[i]->change(values, text_key_of(key, i))) return failed;
  }
  cut = values.cut();
  return std::nullopt;
}

struct PpRun::State {
  PpScratch scratch;
  const Pp* pp = nullptr;
  SampleKey key;
  uint8_t* out = nullptr;
  std::optional<PpImage> image;
  image::SampleError failed;  // before there was something to decode
};

PpRun::PpRun() : state_(new State) {}
PpRun::~PpRun() = default;
PpRun::PpRun(PpRun&&) noexcept = default;

void PpRun::share_tables(PpRun& other) { state_->scratch.state().decoder.share_tables(other.state_->scratch.state().decoder); }

PpScratch& PpRun::scratch() { return state_->scratch; }
const PpScratch& PpRun::scratch() const { return state_->scratch; }

void PpRun::start(const Pp& pp, ByteSpan file, const SampleKey& key, uint8_t* out) {
  State& s = *state_;
  s.pp = &pp;
  s.key = key;
  s.out = out;
  s.image.emplace(file, s.scratch);
  s.failed = pp.apply(*s.image, key, 0, pp.first_edit_);
  if (!s.failed) s.image->start_decoding();
}

void PpRun::reset() {
  state_->image.reset();
  state_->failed.reset();
  state_->scratch.repairs = {};
}

bool PpRun::decoding() const { return state_->image && state_->image->decoding(); }

void PpRun::decode_on(PpRun& first, PpRun* second) {
  PpImage::decode_on(*first.state_->image, second ? &*second->state_->image : nullptr);
}

image::SampleError PpRun::finish() {
  State& s = *state_;
  if (!s.image) return std::nullopt;
  if (!s.failed) s.failed = s.pp->apply(*s.image, s.key, s.pp->first_edit_, s.pp->ops_.size());
  return s.failed ? std::move(s.failed) : s.image->write(s.out);
}

void Pp::draw_erasing(const SampleKey& key, float* out) const {
  if (views_ > 1 && key.view == 0) {
    std::fill_n(out, erasing_->boxes * kEraseValues, 0.0f);
    return;
  }
  // It is the last op.
  Rng rng = rng_of(key_at(key, ops_.size() - 1), ops_.size() - 1);
  ops_.back()->draw(height_, width_, rng, out);
}

std::vector<PpOpInfo> pp_ops() {
  std::vector<PpOpInfo> infos;
  for (const PpOpKind* kind : kOps) infos.push_back({kind->name, kind->usage, kind->help});
  return infos;
}

}  // namespace tessera::data
