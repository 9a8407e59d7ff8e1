#include <algorithm>

#include "data/transform/pp.h"
#include "fuzz/targets.h"
#include "image/codec/png.h"

namespace tessera::fuzz {
namespace {

constexpr int64_t kMostPixels = 1 << 14;  // of what a chain makes: more is slow and no other code

// A chunk eXIf of PNG: the picture is to be turned right (orientation 6).
constexpr std::string_view kExif(
    "\x00\x00\x00\x1a\x65\x58\x49\x66\x4d\x4d\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"
    "\x00\x00\x00\x00\xd6\x67\x4b\x69",
    38);

// A small picture in colour, as a file.
const std::vector<uint8_t>& picture() {
  static const std::vector<uint8_t> file = [] {
    constexpr int kWidth = 21, kHeight = 14;
    image::Image image(kWidth, kHeight);
    uint8_t value = 0;
    for (int y = 0; y < kHeight; ++y) {
      for (int i = 0; i < 3 * kWidth; ++i) image.row(y)[i] = value += static_cast<uint8_t>(i * 7 + y);
    }
    std::vector<uint8_t> bytes = image::encode_png(image.view());
    constexpr ptrdiff_t kHeader = 8 + 25;  // the signature and IHDR
    bytes.insert(bytes.begin() + kHeader, kExif.begin(), kExif.end());
    return bytes;
  }();
  return file;
}

// What Pp::run gives, by way of PpRun; nothing where the chain refuses the picture.
std::vector<uint8_t> run_in_steps(const data::Pp& chain, const data::SampleKey& key) {
  std::vector<uint8_t> pixels(chain.image_bytes());
  data::PpRun run;
  run.scratch().set_limits({.pixels = kMostPixels, .bytes = 16 << 20, .seconds = 0}, nullptr);
  run.start(chain, picture(), key, pixels.data());
  while (run.decoding()) data::PpRun::decode_on(run, nullptr);
  return run.finish() ? std::vector<uint8_t>() : pixels;
}

// The same draws give the same pixels, and a chain without draws does not depend on them.
void run_on_picture(const data::Pp& chain, data::PpUse use) {
  if (int64_t{chain.width()} * chain.height() > kMostPixels) return;
  data::PpScratch scratch;
  scratch.set_limits({.pixels = kMostPixels, .bytes = 16 << 20, .seconds = 0}, nullptr);
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
  if (!chain.erasing() || chain.erasing()->boxes > kMostPixels) return;
  std::vector<float> boxes(static_cast<size_t>(chain.erasing()->boxes * data::kEraseValues));
  chain.draw_erasing({.seed = 1}, boxes.data());
}

// Ids within the vocabulary, or a reason. The first field has `most` texts, the next one less, and so on.
void run_on_texts(const data::Pp& chain, size_t most) {
  std::vector<data::TextValues> texts(chain.text_inputs().size());
  const data::TextValues all = {"An Owl on {a} roof", "zwei Eulen \xC3\xBC", ""};
  for (size_t i = 0; i < texts.size(); ++i)
    texts[i].assign(all.begin(), all.begin() + static_cast<ptrdiff_t>((most + 3 * i) % 4));
  size_t ids = 0;
  for (const data::TokenField& field : chain.token_fields()) ids += static_cast<size_t>(field.length);
  if (ids > kMostPixels) return;
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
