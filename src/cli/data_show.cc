// tessera data show: what the model is given, as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/command.h"
#include "cli/data_sections.h"
#include "data/contact_sheet.h"
#include "data/png.h"
#include "data/token_rows.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

// What one of the sheet's samples is, its texts, and the ids that the chain makes of them.
Json as_json(const DataSection& section, const data::SheetPlace& at) {
  const data::Source& source = *section.source;
  data::Sample sample;
  Json json = {{"path", source.id(at.sample)}, {"epoch", at.key.epoch}};
  if (const auto unread = source.read(at.sample, sample)) {
    json["unreadable"] = *unread;
    return json;
  }
  if (!source.class_names().empty()) json["class"] = source.class_names()[static_cast<size_t>(sample.label)];
  for (size_t field = 0; field < sample.texts.size(); ++field) json["texts"][source.text_fields()[field]] = sample.texts[field];
  data::TokenRows tokens(*section.pp, source);
  if (const data::DecodeResult failed = tokens.make(sample, at.key)) {
    json["unreadable"] = failed->reason;
    return json;
  }
  for (size_t field = 0; field < tokens.size(); ++field) {
    const data::TokenField& made = section.pp->token_fields()[field];
    const std::span<const int32_t> ids = tokens.row(field);
    json["tokens"][made.name] = {{"ids", std::vector<int32_t>(ids.begin(), ids.end())}, {"text", made.encoder->decode(ids)}};
  }
  return json;
}

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
            "draw the first training images as the model sees them, with their labels or texts",
            {{"tessera data show recipes/digits.toml", "writes sheet.png"},
             {"tessera data show recipes/digits.toml --count 100 --out augmented.png seed=1", "more of them, of another seed"},
             {"tessera data show recipes/digits.toml --json", "and of each its texts and their ids, one JSON object a line"}},
            ""};
  }
  void declare(Flags& flags) override {
    flags.add("--out", "FILE", &out_, "the picture, sheet.png when not given");
    flags.add("--count", "N", &count_, 1, "how many images, 48 when not given");
    flags.add("--json", &json_, "of each image its path, class, texts and ids; one JSON object a line");
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
    if (!json_) print(out_);
    for (int64_t i = 0; json_ && i < options.count; ++i) {
      const Json json = as_json(section, data::sheet_place(*section.source, options, i));
      print(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    return Exit::kDone;
  }

 private:
  std::string out_ = "sheet.png";
  int64_t count_ = 48;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_data_show() { return std::make_unique<DataShow>(); }

}  // namespace tessera::cli
