// tessera data show: what the model is given, as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/command.h"
#include "cli/commands/data/sections.h"
#include "cli/other_flags.h"
#include "data/loader/token_rows.h"
#include "data/tools/contact_sheet.h"
#include "image/codec/png.h"

namespace tessera::cli {
namespace {

struct Seed {
  int64_t seed = 0;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("seed", seed, "of sample order and augmentation");
  }
};

using Json = nlohmann::ordered_json;

// What the chain makes of the sample's texts.
void add_tokens(const DataSection& section, const data::ShownSample& shown, Json& json) {
  data::TokenRows tokens(*section.pp, *section.source);
  if (const image::SampleError failed = tokens.make(*shown.sample, shown.key)) {
    json["unreadable"] = failed->reason;
    return;
  }
  for (size_t field = 0; field < tokens.size(); ++field) {
    const data::TokenField& made = section.pp->token_fields()[field];
    const std::span<const int32_t> ids = tokens.row(field);
    json["tokens"][made.name] = {{"ids", std::vector<int32_t>(ids.begin(), ids.end())}, {"text", made.encoder->decode(ids)}};
  }
}

Json to_json(const DataSection& section, const data::ShownSample& shown) {
  const data::Source& source = *section.source;
  Json json = {{"path", source.id(shown.index)}, {"sample", shown.index}, {"epoch", shown.key.epoch}};
  if (shown.error) {
    json["unreadable"] = *shown.error;
    return json;
  }
  const std::vector<std::string_view> classes = data::class_names_of(source, *shown.sample);
  if (source.multi_label()) {
    json["classes"] = classes;
  } else if (!classes.empty()) {
    json["class"] = classes[0];
  }
  const std::vector<std::string> fields = source.text_fields();
  for (size_t field = 0; field < shown.sample->texts.size(); ++field) json["texts"][fields[field]] = shown.sample->texts[field];
  add_tokens(section, shown, json);
  const data::PpTrace& trace = *shown.trace;
  json["size"] = {trace.file_width, trace.file_height};
  json["part"] = {{"x", trace.x}, {"y", trace.y}, {"width", trace.width}, {"height", trace.height}};
  json["mirrored"] = trace.mirrored;
  json["steps"] = trace.steps;
  json["erased"] = Json::array();
  for (const image::Box& box : shown.erased) {
    json["erased"].push_back({{"x", box.x}, {"y", box.y}, {"width", box.width}, {"height", box.height}});
  }
  return json;
}

class DataShow final : public Command {
 public:
  Page page() const override {
    return {"data show",
            "RECIPE [key=value …]",
            "draw the first training images as the model sees them, with their labels or texts",
            {{"tessera data show recipes/digits.toml", "writes sheet.png"},
             {"tessera data show recipes/digits.toml --before", "each image beside the picture and the part it was made of"},
             {"tessera data show recipes/digits.toml --json", "also one JSON object an image, with everything that was drawn"},
             {"tessera data show recipes/digits.toml --count 100 --out augmented.png seed=1", "more of them, of another seed"}},
            ""};
  }
  void declare(Flags& flags) override {
    flags.explain_unknown(explain_words("n num max_n limit", "how many images the picture has: --count 16"));
    flags.add("--out", "FILE", &out_, "the picture, sheet.png when not given");
    flags.add("--before", &before_, "each image beside its picture, with a frame round the part that was taken");
    flags.add("--json", &json_, "one JSON object an image: its texts and their ids, and what was done to it");
    flags.add("--count", "N", &count_, {1, 10'000}, "how many images, 48 when not given");
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
    options.before = before_;
    if (json_) {
      options.shown = [&](const data::ShownSample& shown) { print_json(to_json(section, shown)); };
    }
    image::write_png(out_, data::contact_sheet(*section.source, *section.pp, options).view());
    log_note(fmt::format("{} images of {}, {} x {} pixels, after {}", options.count, section.source->name(),
                         section.pp->width(), section.pp->height(), section.pp->text()));
    if (!json_) print(out_);
    return Exit::kDone;
  }

 private:
  std::string out_ = "sheet.png";
  int64_t count_ = 48;
  bool before_ = false, json_ = false;
};

}  // namespace

const CommandEntry kDataShow = command_entry<DataShow>("data show");

}  // namespace tessera::cli
