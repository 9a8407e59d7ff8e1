#include <algorithm>
#include <array>

#include "data/transform/pp.h"
#include "fuzz/targets.h"
#include "image/codec/encode_jpeg.h"
#include "image/codec/png.h"

namespace tessera::fuzz {
namespace {

constexpr int64_t kMaxPixels = 1 << 14;  // of what a chain makes: more is slow and no other code

// A chunk eXIf of PNG: the picture is to be turned right (orientation 6).
constexpr std::string_view kExif(
    "\x00\x00\x00\x1a\x65\x58\x49\x66\x4d\x4d\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"
    "\x00\x00\x00\x00\xd6\x67\x4b\x69",
    38);

// A small picture in colour.
const image::Image& pixels_of_picture() {
  static const image::Image picture = [] {
    constexpr int kWidth = 21, kHeight = 14;
    image::Image image(kWidth, kHeight);
    uint8_t value = 0;
    for (int y = 0; y < kHeight; ++y) {
      for (int i = 0; i < 3 * kWidth; ++i) image.row(y)[i] = value += static_cast<uint8_t>(i * 7 + y);
    }
    return image;
  }();
  return picture;
}

// As a file that is decoded at once, and as one that is decoded in parts.
const std::vector<uint8_t>& picture() {
  static const std::vector<uint8_t> file = [] {
    std::vector<uint8_t> bytes = image::encode_png(pixels_of_picture().view());
    constexpr ptrdiff_t kHeader = 8 + 25;  // the signature and IHDR
    bytes.insert(bytes.begin() + kHeader, kExif.begin(), kExif.end());
    return bytes;
  }();
  return file;
}

const std::vector<uint8_t>& photograph() {
  static const std::vector<uint8_t> file = image::encode_jpeg(pixels_of_picture().view(), 90);
  return file;
}

void set_fuzz_limits(data::PpScratch& scratch) {
  scratch.set_limits({.pixels = kMaxPixels, .bytes = 16 << 20, .seconds = 0}, nullptr);
}

// What Pp::run gives, by way of PpRun; nothing where the chain refuses the picture.
std::vector<uint8_t> run_in_steps(const data::Pp& chain, const data::SampleKey& key) {
  std::vector<uint8_t> pixels(chain.image_bytes());
  data::PpRun run;
  set_fuzz_limits(run.scratch());
  run.start(chain, picture(), key, pixels.data());
  while (run.decoding()) data::PpRun::decode_on(run, nullptr);
  return run.finish() ? std::vector<uint8_t>() : pixels;
}

// Two files decoded together, with tables that they share: each gives what it gives alone.
void run_in_turns(const data::Pp& chain) {
  std::array<data::PpRun, 2> runs;
  std::array<std::vector<uint8_t>, 2> pixels;
  runs[0].share_tables(runs[1]);
  for (size_t i = 0; i < runs.size(); ++i) {
    pixels[i].resize(chain.image_bytes());
    set_fuzz_limits(runs[i].scratch());
    runs[i].start(chain, photograph(), {.seed = i}, pixels[i].data());
  }
  while (runs[0].decoding() && runs[1].decoding()) data::PpRun::decode_on(runs[0], &runs[1]);
  data::PpScratch alone;
  set_fuzz_limits(alone);
  data::StageSeconds sum;
  for (size_t i = 0; i < runs.size(); ++i) {
    while (runs[i].decoding()) data::PpRun::decode_on(runs[i], nullptr);
    std::vector<uint8_t> wanted(chain.image_bytes());
    const auto failed = runs[i].finish(), failed_too = chain.run(photograph(), {.seed = i}, alone, wanted.data());
    TESSERA_CHECK(failed.has_value() == failed_too.has_value() && (failed || pixels[i] == wanted));
    sum += runs[i].scratch().seconds;
    runs[i].reset();
    TESSERA_CHECK(!runs[i].decoding() && !runs[i].finish());
  }
  for (const auto& [stage, seconds] : sum.named()) TESSERA_CHECK(seconds >= 0, "{}", stage);
  const size_t held = alone.bytes();
  const data::PpScratch moved(std::move(alone));
  TESSERA_CHECK(moved.bytes() == held);
}

// The same draws give the same pixels, and a chain without draws does not depend on them.
void run_on_picture(const data::Pp& chain, data::PpUse use) {
  if (int64_t{chain.width()} * chain.height() > kMaxPixels) return;
  run_in_turns(chain);
  data::PpScratch scratch;
  set_fuzz_limits(scratch);
  // Nothing where the chain refuses the picture.
  const auto run = [&](const data::SampleKey& key, data::PpTrace* trace) {
    std::vector<uint8_t> pixels(chain.image_bytes());
    if (const auto failed = chain.run(picture(), key, scratch, pixels.data(), trace)) {
      TESSERA_CHECK(!failed->reason.empty());
      pixels.clear();
    }
    return pixels;
  };
  for (uint64_t view = 0; view < static_cast<uint64_t>(std::min<int64_t>(chain.views(), 3)); ++view) {
    const data::SampleKey key{.seed = 1, .epoch = 2, .sample = 3, .view = view};
    const auto pixels = run(key, nullptr);
    data::PpTrace trace;
    TESSERA_CHECK(run(key, &trace) == pixels && run_in_steps(chain, key) == pixels);
    for (uint64_t seed = 5; seed < 8; ++seed) run({.seed = seed, .view = view}, nullptr);
    TESSERA_CHECK(use == data::PpUse::kTrain || run({.seed = 4, .view = view}, nullptr) == pixels);
  }
  if (!chain.erasing() || chain.erasing()->boxes > kMaxPixels) return;
  std::vector<float> boxes(static_cast<size_t>(chain.erasing()->boxes * data::kEraseValues));
  chain.draw_erasing({.seed = 1}, boxes.data());
}

// Texts of a source, and the names of its classes.
class Texts final : public data::Source {
 public:
  explicit Texts(std::vector<std::string> fields) : fields_(std::move(fields)) {}
  int64_t size() const override { return 0; }
  const std::vector<std::string>& class_names() const override { return classes_; }
  std::vector<std::string> text_fields() const override { return fields_; }
  std::string id(int64_t) const override { return ""; }
  std::optional<std::string> read(int64_t, data::Sample&) const override { return "is none"; }
  const std::string& name() const override { return name_; }

 private:
  const std::vector<std::string> fields_, classes_ = {"owl", "giraffe"};
  const std::string name_ = "fuzz";
};

// Where a source has the texts that the chain reads, or which it lacks.
void find_in_sources(const data::Pp& chain) {
  for (const size_t count : {size_t{0}, size_t{3}}) {
    std::vector<std::string> fields = {"text", "titles", "x"};
    fields.resize(count);
    const Texts source(fields);
    parses([&] {
      const std::vector<size_t> places = data::find_texts(chain, source, "fuzz");
      TESSERA_CHECK(places.size() == chain.text_inputs().size());
      for (size_t i = 0; i < places.size(); ++i) {
        TESSERA_CHECK(places[i] == count ? chain.text_inputs()[i] == "label" : chain.text_inputs()[i] == fields[places[i]]);
      }
      return true;
    });
  }
}

// No two arrays of ids are one, and what a tokenizer says of its pieces holds together.
void check_tokens(const data::Pp& chain) {
  for (const data::TokenField& field : chain.token_fields()) {
    for (const data::TokenField& other : chain.token_fields()) TESSERA_CHECK((field == other) == (&field == &other));
    const data::Tokenizer& tokenizer = field.encoder->tokenizer();
    std::vector<int32_t> ids = {field.pad};
    tokenizer.encode("An Owl on {a} roof", ids);
    for (const std::optional<int32_t> id : {tokenizer.bos(), tokenizer.eos()}) {
      if (id) ids.push_back(*id);
    }
    for (const int32_t id : ids) {
      TESSERA_CHECK(id >= 0 && id < field.vocabulary);
      tokenizer.find(tokenizer.piece(id));
    }
    tokenizer.decode(ids);
    field.encoder->decode(ids);
  }
}

// Ids within the vocabulary, or a reason. The first field has `most` texts, the next one less, and so on.
void run_on_texts(const data::Pp& chain, size_t most) {
  std::vector<data::TextValues> texts(chain.text_inputs().size());
  const data::TextValues all = {"An Owl on {a} roof", "zwei Eulen \xC3\xBC", ""};
  for (size_t i = 0; i < texts.size(); ++i)
    texts[i].assign(all.begin(), all.begin() + static_cast<ptrdiff_t>((most + 3 * i) % 4));
  size_t ids = 0;
  for (const data::TokenField& field : chain.token_fields()) ids += static_cast<size_t>(field.length);
  if (ids > kMaxPixels) return;
  std::vector<int32_t> memory(ids);
  std::vector<int32_t*> rows;
  for (size_t at = 0; const data::TokenField& field : chain.token_fields()) {
    rows.push_back(memory.data() + at);
    at += static_cast<size_t>(field.length);
  }
  int64_t cut = 0;
  if (const auto failed = chain.run_texts(texts, {.seed = 1, .epoch = 5}, rows.data(), cut)) {
    TESSERA_CHECK(!failed->reason.empty());
    return;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const data::TokenField& field = chain.token_fields()[i];
    TESSERA_CHECK(std::all_of(rows[i], rows[i] + field.length, [&](int32_t id) { return id >= 0 && id < field.vocabulary; }));
  }
}

bool pp(std::string_view bytes) {
  if (bytes.find("://") != std::string_view::npos) return false;  // a tokenizer's address, which would be asked for
  bool taken = false;
  for (const data::PpUse use : {data::PpUse::kTrain, data::PpUse::kEval})
    taken |= parses([&] {
      const data::Pp chain(bytes, use, "fuzz");
      run_on_picture(chain, use);
      find_in_sources(chain);
      check_tokens(chain);
      for (size_t most = 0; most < 4; ++most) run_on_texts(chain, most);
      return true;
    });
  return taken;
}

}  // namespace

const std::vector<NamedTarget>& pp_targets() {
  static const std::vector<NamedTarget> all = {{"pp", pp, 512}};
  return all;
}

}  // namespace tessera::fuzz
