// tessera data show: what the model is given, as a picture.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "cli/command.h"
#include "cli/contact_sheet.h"
#include "cli/data_sections.h"
#include "data/loader.h"
#include "data/png.h"

namespace tessera::cli {
namespace {

struct Seed {
  int64_t seed = 0;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("seed", seed, "of sample order and augmentation");
  }
};

class DataShow final : public Command {
 public:
  Page page() const override {
    return {"data show",
            "RECIPE [key=value …]",
            "draw the first training images as the model sees them, with their labels",
            {{"tessera data show recipes/digits.toml", "writes sheet.png"},
             {"tessera data show recipes/digits.toml --count 100 --out augmented.png seed=1", "more of them, of another seed"}},
            ""};
  }
  void declare(Flags& flags) override {
    flags.add("--out", "FILE", &out_, "the picture, sheet.png when not given");
    flags.add("--count", "N", &count_, 1, "how many images, 48 when not given");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    config::Section recipe = load_recipe(recipe_words(words, "data show"));
    Seed seed;
    recipe.bind_part(seed);
    const DataSection section = open_data_sections(recipe).front();
    if (!section.pp) throw usage_error(fmt::format("`{}.pp` is missing", section.key), recipe.where(section.key));
    draw(section, static_cast<uint64_t>(seed.seed));
    print(out_);
    return Exit::kDone;
  }

 private:
  void draw(const DataSection& section, uint64_t seed) const {
    data::LoaderOptions options;
    options.batch = std::min(count_, section.source->size());
    options.seed = seed;
    options.prefetch = 1;
    options.where = section.key;
    data::TrainLoader loader(section.source, section.pp, options);
    const data::Batch batch = loader.next();
    std::vector<Tile> tiles;
    const int width = section.pp->width(), height = section.pp->height();
    for (int64_t i = 0; i < batch.rows(); ++i) {
      const uint8_t* pixels = batch.images() + static_cast<size_t>(i) * section.pp->image_bytes();
      tiles.push_back({{pixels, width, height, ptrdiff_t{3} * width},
                       section.source->class_names()[static_cast<size_t>(batch.labels()[i])]});
    }
    data::write_png(out_, contact_sheet(tiles).view());
    log_note(fmt::format("{} images of {}, {} x {} pixels, after {}", tiles.size(), section.source->name(), width, height,
                         section.pp->text()));
  }

  std::string out_ = "sheet.png";
  int64_t count_ = 48;
};

}  // namespace

std::unique_ptr<Command> make_data_show() { return std::make_unique<DataShow>(); }

}  // namespace tessera::cli
