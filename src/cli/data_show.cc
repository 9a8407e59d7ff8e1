// tessera data show: what the model is given, as a picture.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "cli/command.h"
#include "cli/data_sections.h"
#include "data/contact_sheet.h"
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
    data::ContactSheetOptions options;
    options.count = std::min(count_, section.source->size());
    options.seed = static_cast<uint64_t>(seed.seed);
    data::write_png(out_, data::contact_sheet(*section.source, *section.pp, options).view());
    log_note(fmt::format("{} images of {}, {} x {} pixels, after {}", options.count, section.source->name(),
                         section.pp->width(), section.pp->height(), section.pp->text()));
    print(out_);
    return Exit::kDone;
  }

 private:
  std::string out_ = "sheet.png";
  int64_t count_ = 48;
};

}  // namespace

std::unique_ptr<Command> make_data_show() { return std::make_unique<DataShow>(); }

}  // namespace tessera::cli
