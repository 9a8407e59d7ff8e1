#include "cli/documents/document_project.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "cli/archives.h"
#include "cli/documents/documents.h"
#include "cli/run_program.h"

namespace tessera::cli {
namespace {

constexpr int kImages = 10;  // of a class

void write_classes(const fs::path& folder, const std::vector<std::string>& classes, const std::string& suffix) {
  for (size_t label = 0; label < classes.size(); ++label) {
    for (int i = 1; i <= kImages; ++i)
      write_image(folder / classes[label] / fmt::format("{:04}{}", i, suffix), static_cast<int>(label % 2), i);
  }
}

void write_digits(const fs::path& project) {
  std::vector<std::string> digits;
  for (int digit = 0; digit < 10; ++digit) digits.push_back(std::to_string(digit));
  for (const char* split : {"train", "val"}) write_classes(project / "data/digits" / split, digits, ".png");
}

// Images that tables name, and the tables: of docs/csv.md, docs/multi_label.md and docs/text.md.
void write_tables(const fs::path& project) {
  std::string species = "filename,species,split\n", train = "file,tags\n", valid = "file,tags\n", captions, many_captions;
  for (int i = 1; i <= 2 * kImages; ++i) {
    const std::string name = fmt::format("owls/{:04}.jpg", i);
    write_image(project / name, i % 2, i);
    write_image(project / "captions" / name, i % 2, i);
    species += fmt::format("{},{},{}\n", name, i % 2 == 0 ? "Strix aluco" : "\"Tyto alba (Scopoli, 1769)\"",
                           i % 5 < 3 ? "train" : "valid");
    (i % 5 < 3 ? train : valid) += fmt::format("{},{}\n", name, i % 3 == 0 ? "beach people" : i % 3 == 1 ? "beach" : "");
    captions += Json{{"image", name}, {"caption", fmt::format("an owl number {} on a branch", i)}}.dump() + "\n";
    many_captions += Json{{"image", name}, {"captions", {"an owl", fmt::format("a bird, {} years old", i)}}}.dump() + "\n";
  }
  write_file(project / "labels.csv", species);
  write_file(project / "train.csv", train);
  write_file(project / "valid.csv", valid);
  write_file(project / "captions.jsonl", captions);
  write_file(project / "captions/train.jsonl", many_captions);
}

// As ./dev shapes makes it: an image has one caption in training, and in validation the true one among 64.
void write_shapes(const fs::path& project) {
  const auto caption = [](int i) { return fmt::format("a {} square and {} circles", i % 2 == 0 ? "large" : "small", i); };
  std::vector<std::string> candidates;
  for (int i = 0; i < 64; ++i) candidates.push_back(caption(i));
  std::string train, val;
  for (int i = 0; i < kImages; ++i) {
    const std::string name = fmt::format("{}.png", i);
    write_image(project / "data/shapes" / name, i % 2, i);
    train += Json{{"image", name}, {"caption", caption(i)}}.dump() + "\n";
    val += Json{{"image", name}, {"label", i}, {"candidates", candidates}}.dump() + "\n";
  }
  write_file(project / "data/shapes/train.jsonl", train);
  write_file(project / "data/shapes/val.jsonl", val);
  write_file(project / "data/shapes/seen.jsonl", val);
}

void succeed(const fs::path& project, const std::vector<std::string>& args) {
  const Outcome outcome = run_program(args, project, project_environment(project));
  ASSERT_EQ(outcome.exit, 0) << ::testing::PrintToString(args) << "\n" << outcome.err;
}

// Shards and a data set of TFDS's, for the mixture of the README.
void write_records(const fs::path& project) {
  write_file(project / "names.txt", "daisy\nrose\n");
  for (int i = 0; i < 32; ++i) {
    write_file(project / fmt::format("sketches/{:03}.tar", i),
               data::testing::tar_of({{"a.png", read_file(project / "photo.png")}, {"a.cls", std::to_string(i % 2)}}));
  }
  succeed(project,
          {"data", "convert", "folder(flowers/train)", "--to", "tfrecord", "--out", "tensorflow_datasets/imagenet2012"});
}

void write_archives(const fs::path& project) {
  write_imagenet_archives(project / "downloads");
  for (const char* split : {"train2017", "val2017"}) {
    data::testing::write_zip(
        project / (std::string(split) + ".zip"),
        {{std::string(split) + "/", ""}, {std::string(split) + "/000000000009.jpg", read_file(project / "photo.jpg")}});
  }
  const Json image = {{"file_name", "000000000009.jpg"}, {"id", 9}};
  const std::string captions =
      Json{{"images", {image}}, {"annotations", {{{"image_id", 9}, {"id", 11}, {"caption", "A plate"}}}}}.dump();
  const std::string objects = Json{{"images", {image}},
                                   {"annotations", {{{"image_id", 9}, {"category_id", 51}, {"id", 1}}}},
                                   {"categories", {{{"id", 51}, {"name", "bowl"}}}}}
                                  .dump();
  data::testing::write_zip(project / "annotations_trainval2017.zip", {{"annotations/captions_train2017.json", captions},
                                                                      {"annotations/captions_val2017.json", captions},
                                                                      {"annotations/instances_train2017.json", objects},
                                                                      {"annotations/instances_val2017.json", objects}});
}

// timm's files of a small ViT, as a directory and in the Hub's cache.
void write_weights(const fs::path& project) {
  const std::string timm = testing::source_path("tests/references/timm_local_dir");
  for (const char* name : {"WEIGHTS", "vit_small_from_timm"}) fs::copy(timm, project / name);
  const fs::path cached = project / "hub/models--timm--vit_small_patch16_224.augreg_in21k";
  fs::create_directories(cached / "snapshots");
  fs::copy(timm, cached / "snapshots/0123");
  write_file(cached / "refs/main", "0123");
}

void train(const fs::path& project, const std::string& recipe, const std::string& run) {
  std::vector<std::string> args = {"train", recipe, "--workdir", run, "checkpoint.every=5 steps"};
  for (const std::string& word : shortened(read_file(project / recipe))) args.push_back(word);
  succeed(project, args);
}

}  // namespace

std::map<std::string, std::string> project_environment(const fs::path& project) {
  return {{"HOME", project}, {"HF_HUB_CACHE", project / "hub"}, {"HF_HUB_OFFLINE", "1"}, {"XDG_DATA_HOME", project / "share"}};
}

std::string with_short_phases(const std::string& text) {
  const std::string phases = std::regex_replace(text, std::regex("(warmup|cooldown)=[0-9]+ (steps|epochs)"), "$1=50 %");
  return std::regex_replace(phases, std::regex("every=[0-9]+ epochs"), "every=2 steps");
}

std::vector<std::string> shortened(const std::string& recipe) {
  std::vector<std::string> words = {"total=10 steps", "data.batch=8"};
  const auto add = [&](const std::vector<std::string>& more) { words.insert(words.end(), more.begin(), more.end()); };
  std::string section, model;
  std::istringstream lines(recipe);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    if (line.starts_with("[")) section = line.substr(1, line.find(']') - 1);
    if (std::regex_search(line, match, std::regex("^model += \\{ name = \"(\\w+)\"")) ||
        (section == "model" && std::regex_search(line, match, std::regex("^name += \"(\\w+)\""))))
      model = match[1];
    if (std::regex_search(line, match, std::regex("\\blr = \"([^\"]*)\""))) {
      const std::string rate = match[1];
      if (with_short_phases(rate) != rate) words.push_back("optimizer.lr=" + with_short_phases(rate));
    }
    // Smaller images, which patches of 14 and of 16 divide too.
    const std::string data = section.empty() || section == "data" ? "data" : section + ".data";
    if (std::regex_search(line, match, std::regex("pp += \"([^\"]*\\((224|256)[^\"]*)\""))) {
      const std::string smaller = std::regex_replace(match[1].str(), std::regex("\\(224"), "(112");
      words.push_back(data + ".pp=" + std::regex_replace(smaller, std::regex("\\(256"), "(128"));
    }
    // fake(…) may have a million images: sixteen will do.
    if (std::regex_search(line, match, std::regex("source = \"(fake\\(images=)[0-9]+(, classes=)([0-9]+)([^\"]*)\"")))
      words.push_back(fmt::format("{}.source={}16{}{}{}", data, match[1].str(), match[2].str(),
                                  std::min(10, std::stoi(match[3])), match[4].str()));
    if (section.starts_with("eval.") && line.starts_with("batch")) words.push_back(section + ".batch=8");
  }
  // Weights that a run begins from say how large it is.
  if (recipe.find("model_init") != std::string::npos) return words;
  if (model == "resnet") add({"model.depths=[1,1,1,1]", "model.dims=[8,8,8,8]"});
  if (model == "vit" || model == "cappa") add({"model.width=24", "model.depth=1", "model.heads=3"});
  if (model == "cappa") add({"model.decoder_depth=1"});
  if (model == "two_tower") {
    for (const std::string tower : {"image", "text"}) {
      for (const char* size : {"width=24", "depth=1", "heads=3"}) words.push_back(fmt::format("model.{}.{}", tower, size));
    }
  }
  return words;
}

std::string recipe_in(const std::string& document) {
  for (const Block& block : blocks_in(document)) {
    if (block.language == "toml" && block.text.find("model ") != std::string::npos &&
        block.text.find("objective ") != std::string::npos)
      return block.text;
  }
  return "";
}

void write_project(const fs::path& project) {
  fs::copy(testing::source_path("recipes"), project / "recipes");
  for (const char* name : {"photo.jpg", "photo.png", "image.png"}) write_image(project / name, 0, 1);
  write_classes(project / "photos", {"barn_owl", "tawny_owl"}, ".jpg");
  for (int i = 0; i < 4; ++i) write_image(project / "new_photos" / fmt::format("{}.png", i), i % 2, i);
  for (const char* split : {"train", "val"}) write_classes(project / "flowers" / split, {"daisy", "rose"}, ".jpg");
  write_file(project / "recipe.toml", recipe_in("docs/your_images.md"));
  write_digits(project);
  write_tables(project);
  write_shapes(project);
  write_archives(project);
  write_weights(project);
  write_records(project);
  succeed(project, {"data", "prepare", "imagenet", "imagenet", "--from", "downloads"});
  for (const auto& [texts, model] : {std::pair{"jsonl(data/shapes/train.jsonl, text=caption)", "data/shapes/tokenizer.model"},
                                     {"jsonl(captions/train.jsonl, text=captions)", "captions/tokenizer.model"}})
    succeed(project, {"data", "tokenizer", texts, "--out", model});
  train(project, "recipes/digits.toml", "runs/digits-1");
  train(project, "recipe.toml", "runs/long");
  for (const char* copy : {"runs/a", "runs/b"})
    fs::copy(project / "runs/digits-1", project / copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  train(project, "recipes/cappa_toy.toml", "runs/cappa_toy");
  train(project, "recipes/imagenet.toml", "runs/vit_b");
  fs::create_directories(project / "shared");
  fs::create_directory_symlink("../runs", project / "shared/runs");
  succeed(project, {"export", "--from", "runs/cappa_toy", "--format", "big_vision", "--to", "cappa.npz"});
}

}  // namespace tessera::cli
