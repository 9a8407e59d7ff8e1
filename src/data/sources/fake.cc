// fake(images, classes, fill): samples that cost nothing, to measure everything but the input.

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "data/source_call.h"

namespace tessera::data {
namespace {

class Fake final : public Source {
 public:
  Fake(std::string name, int64_t images, int64_t classes, bool noise) : name_(std::move(name)), images_(images), noise_(noise) {
    for (int64_t c = 0; c < classes; ++c) classes_.push_back(std::to_string(c));
  }
  int64_t size() const override { return images_; }
  const std::vector<std::string>& class_names() const override { return classes_; }
  std::string id(int64_t index) const override { return std::to_string(index); }
  std::optional<std::string> read(int64_t index, Sample& sample) const override {
    sample.image = {};
    sample.label = static_cast<int32_t>(index % static_cast<int64_t>(classes_.size()));
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
  std::string name_;
  std::vector<std::string> classes_;
  int64_t images_;
  bool noise_;
};

}  // namespace

std::shared_ptr<const Source> make_fake(CallReader& call, std::string_view) {
  const int64_t images = call.integer("images", 1'281'167), classes = call.integer("classes", 1000);
  const std::string fill = call.text("fill", "zeros");
  call.finish();
  if (images < 1 || classes < 1 || classes > images) {
    call.fail(fmt::format("{} images of {} classes", images, classes), "there must be at least one image for each class");
  }
  if (fill != "zeros" && fill != "noise") call.fail(fmt::format("can't fill with `{}`", fill), "zeros or noise");
  return std::make_shared<Fake>(fmt::format("fake {}", fill), images, classes, fill == "noise");
}

}  // namespace tessera::data
