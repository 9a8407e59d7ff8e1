// fake(images, classes, fill, words): samples that cost nothing, to measure everything but the input.

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "data/source_call.h"

namespace tessera::data {
namespace {

constexpr int64_t kMaxImages = 1'000'000'000'000, kMaxFakeClasses = 1'000'000, kMaxWords = 100'000;

class Fake final : public Source {
 public:
  Fake(std::string name, int64_t images, int64_t classes, bool noise, int64_t words)
      : name_(std::move(name)), images_(images), words_(words), noise_(noise) {
    for (int64_t c = 0; c < classes; ++c) classes_.push_back(std::to_string(c));
  }
  int64_t size() const override { return images_; }
  const std::vector<std::string>& class_names() const override { return classes_; }
  std::optional<std::vector<int64_t>> class_sizes() const override {
    const auto classes = static_cast<int64_t>(classes_.size());
    std::vector<int64_t> sizes;
    for (int64_t c = 0; c < classes; ++c) sizes.push_back((images_ - c + classes - 1) / classes);
    return sizes;
  }
  std::optional<std::vector<int32_t>> labels() const override {
    std::vector<int32_t> labels(static_cast<size_t>(images_));
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % classes_.size());
    return labels;
  }
  std::vector<std::string> text_fields() const override {
    return words_ > 0 ? std::vector<std::string>{"text"} : std::vector<std::string>{};
  }
  std::string id(int64_t index) const override { return std::to_string(index); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    sample.image = {};
    sample.label = static_cast<int32_t>(index % static_cast<int64_t>(classes_.size()));
    sample.texts.clear();
    if (words_ > 0) write_text(index, sample);
    return std::nullopt;
  }
  const std::string& name() const override { return name_; }

  bool fill_pixels(int64_t index, std::span<uint8_t> row) const override {
    if (!noise_) {
      std::ranges::fill(row, uint8_t{0});
      return true;
    }
    Rng rng(static_cast<uint64_t>(index));
    for (size_t i = 0; i < row.size(); i += sizeof(uint32_t)) {
      const uint32_t word = rng.next();
      std::memcpy(row.data() + i, &word, std::min(sizeof word, row.size() - i));
    }
    return true;
  }

 private:
  // Words of numbers, as many as there are at most or fewer.
  void write_text(int64_t index, Sample& sample) const {
    constexpr uint32_t kWords = 1 << 16;
    Rng rng(static_cast<uint64_t>(index), 1);
    sample.text_memory.clear();
    for (auto left = rng.below(static_cast<uint64_t>(words_)) + 1; left > 0; --left) {
      sample.text_memory += fmt::format("{} ", rng.below(kWords));
    }
    sample.texts.push_back({sample.text_memory});
  }

  std::string name_;
  std::vector<std::string> classes_;
  int64_t images_, words_;
  bool noise_;
};

std::shared_ptr<const Source> make_fake(CallReader& call, std::string_view) {
  const int64_t images = call.integer("images", 1'281'167), classes = call.integer("classes", 1000);
  const std::string fill = call.text("fill", "zeros");
  const int64_t words = call.integer("words", 0);
  call.finish();
  if (images < 1 || classes < 1 || classes > images) {
    call.fail(fmt::format("{} images of {} classes", images, classes), "there must be at least one image for each class");
  }
  if (images > kMaxImages || classes > kMaxFakeClasses) {
    call.fail(fmt::format("{} images of {} classes", images, classes),
              fmt::format("at most {} images of {} classes", kMaxImages, kMaxFakeClasses));
  }
  if (words < 0 || words > kMaxWords) {
    call.fail(fmt::format("texts of {} words", words), fmt::format("0 (without texts) to {}", kMaxWords));
  }
  if (fill != "zeros" && fill != "noise") call.fail(fmt::format("can't fill with `{}`", fill), "zeros or noise");
  return std::make_shared<Fake>(fmt::format("fake {}", fill), images, classes, fill == "noise", words);
}

}  // namespace

const SourceKind kFake{"fake", "fake(images=1281167, classes=1000, fill=zeros|noise, words=0)",
                       "made-up images, and texts of up to so many words, to measure everything else", make_fake};

}  // namespace tessera::data
