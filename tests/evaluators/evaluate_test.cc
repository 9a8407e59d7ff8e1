// Evaluators over splits of any size, on one device and on eight, against figures of the same model's outputs for all images at
// once (the figures themselves are compared with scikit-learn's and big_vision's in tests/metrics); their files and mistakes.

#include "train/evaluate/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "evaluators/split_images.h"
#include "evaluators/tta.h"
#include "inference/use_model.h"
#include "ir/ops.h"
#include "metrics/class_tally.h"
#include "metrics/confusion.h"
#include "metrics/few_shot.h"
#include "metrics/linear_probe.h"
#include "metrics/neighbours.h"
#include "support/formula.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::devices;
using ::testing::HasSubstr;
using testing::HostArray;
using testing::json_lines;
using testing::kSplitClasses;
using testing::kSplitSize;
using testing::Picture;
using testing::pictures;
using testing::small_run;
using testing::split_folder;
using testing::split_source;

constexpr int64_t kSplits[] = {1, 7, 1000, 1003};

// ---- a model, and what it makes of all images of a split at once

state::LoadedModel make_model() {
  state::LoadedModel loaded;
  config::Section recipe = config::parse_recipe(R"(model = { name = "vit", width = 12, depth = 1, heads = 2, patch = 4 })");
  loaded.model = models::make_model(recipe.section("model"), {kSplitSize, kSplitSize, 3, kSplitClasses});
  const std::vector<nn::ParamSpec> specs = models::parameters(*loaded.model);
  loaded.layout = state::param_layout(specs);
  for (const nn::ParamSpec& spec : specs) {
    const double offset = spec.name.ends_with("scale") ? 1 : 0;
    const auto values = testing::formula_array(spec.name, element_count(spec.type.dims), 0.5, offset);
    loaded.params.push_back(store::copy_bytes(std::as_bytes(std::span(values))));
  }
  return loaded;
}

const state::LoadedModel& model() {
  static const state::LoadedModel loaded = make_model();
  return loaded;
}

struct Outputs {
  metrics::Features logits, features;
};

// Of the largest split: the smaller ones are some of its images.
Outputs outputs(const std::vector<Picture>& images) {
  const auto rows = static_cast<int64_t>(images.size());
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  std::vector<HostArray> arguments;
  for (const nn::ParamSpec& spec : models::parameters(*model().model)) {
    store.provide(spec.name, graph.add_parameter(spec.type, spec.name));
    const auto bytes = model().params[arguments.size()].data;
    arguments.emplace_back(spec.type, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  std::vector<float> pixels;
  for (const Picture& one : images) {
    for (const uint8_t value : one.rgb) pixels.push_back(static_cast<float>(value) / 127.5f - 1);
  }
  arguments.push_back(testing::f32_array({rows, kSplitSize, kSplitSize, 3}, pixels));
  const ir::Value input = graph.add_parameter(arguments.back().type, "images");
  const auto& classifier = dynamic_cast<const models::Classifier&>(*model().model);
  graph.results = {classifier.logits(nn::Scope(store, {}), input)};
  nn::ParamStore again(graph);
  for (size_t i = 0; i < model().params.size(); ++i) {
    again.provide(store.specs()[i].name, store.values()[i]);
  }
  graph.results.push_back(classifier.features(nn::Scope(again, {}), input));
  const auto results = testing::run_graph(graph, arguments);
  return {{kSplitClasses, results[0].floats()}, {results[1].type.dims[1], results[1].floats()}};
}

struct Split {
  std::vector<Picture> images;
  std::vector<int32_t> labels;
  Outputs outputs;
};

Split make_split(std::vector<Picture> images) {
  Split split{std::move(images), {}, {}};
  for (const Picture& one : split.images) split.labels.push_back(one.label);
  split.outputs = outputs(split.images);
  return split;
}

// ---- evaluated

constexpr const char* kChain = "decode | central_crop(8) | value_range(-1, 1)";

std::string section_of(const std::string& name, const std::string& type, const std::string& source,
                       const std::string& options = {}) {
  std::string text = fmt::format("[eval.{}]\ntype = \"{}\"\nbatch = 64\ndata = {{ source = \"{}\", pp = \"{}\" }}\n{}\n", name,
                                 type, source, kChain, options);
  if (type == "classification" || type == "mean") return text;
  return text + fmt::format("train = {{ source = \"folder({})\", pp = \"{}\" }}\n", split_folder() / "train", kChain);
}

std::string section(const std::string& name, const std::string& type, int64_t split, const std::string& options = {}) {
  return section_of(fmt::format("{}{}", name, split), type, split_source(split), options);
}

std::map<std::string, Scores> evaluate_text(const std::string& recipe, int64_t device_count = 1,
                                            const std::string& files = {}) {
  std::map<std::string, Scores> scores;
  for (const inference::NamedScore& one :
       inference::evaluate(config::parse_recipe(recipe), model(), devices(device_count), files)) {
    scores[one.name] = one.scores;
  }
  return scores;
}

std::string all_evaluators() {
  std::string recipe;
  for (const int64_t n : kSplits) {
    recipe += section("top", "classification", n, "per_class = true\nmetrics = [\"cohen_kappa\", \"f1_macro\"]") +
              section("shots", "few_shot", n, "shots = [1, 5]") + section("knn", "knn", n) +
              section("probe", "linear_probe", n, "c = 0.5");
  }
  return recipe;
}

// In f64, of the first largest.
struct Answer {
  double loss = 0;
  int32_t predicted = 0;
  bool first = false, top5 = false;
};
Answer answer(std::span<const float> logits, int32_t label) {
  Answer out;
  double sum = 0;
  const double own = double{logits[static_cast<size_t>(label)]};
  int before = 0;
  for (size_t c = 0; c < logits.size(); ++c) {
    sum += std::exp(double{logits[c]});
    before += double{logits[c]} > own;
    if (logits[c] > logits[static_cast<size_t>(out.predicted)]) out.predicted = static_cast<int32_t>(c);
  }
  out.loss = std::log(sum) - own;
  out.first = before < 1, out.top5 = before < 5;
  return out;
}

// Programs of other batches may add up the products of a logit in another order: 2^-24 of their magnitude, which is about 10, for
// some ten of the roundings.
constexpr double kLossRounding = 1e-5;

void expect_classification(const Scores& scores, const Split& split) {
  double loss = 0, first = 0, top5 = 0;
  metrics::ClassTally tally(kSplitClasses);
  const auto n = static_cast<double>(split.labels.size());
  for (size_t i = 0; i < split.labels.size(); ++i) {
    const Answer one = answer(split.outputs.logits.row(static_cast<int64_t>(i)), split.labels[i]);
    loss += one.loss / n, first += one.first, top5 += one.top5;
    tally.add(split.labels[i], one.predicted);
  }
  EXPECT_EQ(scores.count, static_cast<int64_t>(split.labels.size()));
  EXPECT_NEAR(scores.at("loss"), loss, kLossRounding);
  EXPECT_EQ(scores.at("prec@1"), first / n);
  EXPECT_EQ(scores.at("prec@5"), top5 / n);
  EXPECT_EQ(scores.at("f1_macro"), tally.f1());
  EXPECT_TRUE(split.labels.size() == 1 || scores.at("cohen_kappa") == tally.kappa());
}

void expect_learned(const std::map<std::string, Scores>& scores, const Split& train, const Split& split, int64_t n) {
  const metrics::LabelledFeatures known{train.outputs.features, train.labels};
  const metrics::Features& test = split.outputs.features;
  const auto share = [&](const std::vector<int32_t>& predicted) { return metrics::share_equal(predicted, split.labels); };
  std::vector<std::string> names;
  for (int64_t c = 0; c < kSplitClasses; ++c) names.push_back(fmt::format("c{}", c));
  for (const int64_t shots : {1, 5}) {
    double sum = 0;
    for (const uint64_t seed : {0u, 1u, 2u}) {
      const auto rows = metrics::draw_shots(known.labels, names, shots, seed);
      sum += share(metrics::least_squares_classes(metrics::take_rows(known, rows), test, kSplitClasses));
    }
    EXPECT_DOUBLE_EQ(scores.at(fmt::format("shots{}", n)).at(fmt::format("{}shot", shots)), sum / 3) << shots;
  }
  EXPECT_EQ(scores.at(fmt::format("knn{}", n)).at("prec@1"), share(metrics::neighbour_classes(known, test, kSplitClasses, {})));
  const metrics::LinearProbe probe = metrics::fit_linear_probe(known, kSplitClasses, {.c = 0.5});
  EXPECT_EQ(scores.at(fmt::format("probe{}", n)).at("prec@1"), share(metrics::probe_classes(probe, test)));
}

// What is said of every image, in the order of the source.
void expect_predictions(const std::string& path, const Split& split) {
  const std::vector<json> lines = json_lines(path);
  ASSERT_EQ(lines.size(), split.images.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const Answer want = answer(split.outputs.logits.row(static_cast<int64_t>(i)), split.labels[i]);
    EXPECT_EQ(lines[i]["id"], split.images[i].id);
    EXPECT_EQ(lines[i]["label"], fmt::format("c{}", split.labels[i]));
    EXPECT_EQ(lines[i]["predicted"], fmt::format("c{}", want.predicted));
    EXPECT_EQ(lines[i]["top"][0], lines[i]["predicted"]);
    EXPECT_EQ(lines[i]["prec@1"], want.first ? 1.0 : 0.0);
    EXPECT_NEAR(lines[i]["loss"].get<double>(), want.loss, 1e-5);
    ASSERT_EQ(lines[i]["prob"].size(), 5u);
    EXPECT_TRUE(!want.first || std::abs(lines[i]["prob"][0].get<double>() - std::exp(-want.loss)) < 1e-5);
  }
}

void expect_class_table(const std::string& path, const Split& split) {
  metrics::Confusion confusion(kSplitClasses);
  for (size_t i = 0; i < split.labels.size(); ++i) {
    confusion.add(split.labels[i], answer(split.outputs.logits.row(static_cast<int64_t>(i)), split.labels[i]).predicted);
  }
  const json table = json::parse(testing::slurp(path));
  metrics::ClassTally tally(kSplitClasses);
  for (size_t i = 0; i < split.labels.size(); ++i) {
    tally.add(split.labels[i], answer(split.outputs.logits.row(static_cast<int64_t>(i)), split.labels[i]).predicted);
  }
  EXPECT_EQ(table["balanced_accuracy"], tally.balanced_accuracy());
  for (int64_t c = 0; c < kSplitClasses; ++c) {
    const json& of_class = table["classes"][static_cast<size_t>(c)];
    EXPECT_EQ(of_class["class"], fmt::format("c{}", c));
    EXPECT_EQ(of_class["examples"], confusion.of_class(c));
    EXPECT_EQ(of_class["recall"], confusion.recall(c));
    for (int64_t p = 0; p < kSplitClasses; ++p) {
      EXPECT_EQ(table["confusion"][static_cast<size_t>(c)][static_cast<size_t>(p)], confusion.at(c, p));
    }
  }
}

TEST(Evaluators, GiveTheFiguresOfAllImagesAtOnce) {
  const Split train = make_split(pictures(140, 1));
  const std::string recipe = all_evaluators();
  const auto one = evaluate_text(recipe, 1, split_folder() / "one"), eight = evaluate_text(recipe, 8, split_folder() / "eight");
  for (const int64_t n : kSplits) {
    const Split split = make_split(pictures(n, 2));
    for (const auto& scores : {one, eight}) {
      SCOPED_TRACE(fmt::format("{} images", n));
      expect_classification(scores.at(fmt::format("top{}", n)), split);
      expect_learned(scores, train, split, n);
    }
    for (const char* run : {"/one", "/eight"}) {
      expect_predictions(fmt::format("{}{}/top{}.jsonl", split_folder().path(), run, n), split);
      if (n >= kSplitClasses) expect_class_table(fmt::format("{}{}/top{}.json", split_folder().path(), run, n), split);
    }
  }
  const std::vector<json> shots = json_lines(split_folder() / "one/shots1003.jsonl");
  EXPECT_EQ(shots[0]["5shot"].size(), 3u);  // one for each draw
  EXPECT_TRUE(json_lines(split_folder() / "one/knn7.jsonl")[6]["predicted"].is_string());
}

TEST(Evaluators, PredictionsLeaveOutWhatCannotBeRead) {
  testing::write_pictures(split_folder() / "val9", 9, 3);
  testing::spill(split_folder() / "val9/c3/broken.png", "no image");
  const Scores scores = evaluate_text(section_of("top", "classification", fmt::format("folder({})", split_folder() / "val9")),
                                      1, split_folder() / "broken")
                            .at("top");
  EXPECT_EQ(scores.count, 9);
  EXPECT_EQ(scores.skipped, 1);
  const std::vector<Picture> images = pictures(9, 3);
  const std::vector<json> lines = json_lines(split_folder() / "broken/top.jsonl");
  ASSERT_EQ(lines.size(), 9u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["id"], images[i].id);
}

// The training objective's loss: with label smoothing, and without the very figures of classification.
TEST(Evaluators, MeanOfTheObjective) {
  const auto plain = evaluate_text(section("top", "classification", 7) + section("mean", "mean", 7));
  EXPECT_NEAR(plain.at("mean7").at("loss"), plain.at("top7").at("loss"), kLossRounding);
  EXPECT_EQ(plain.at("mean7").at("prec@1"), plain.at("top7").at("prec@1"));
  const std::string smooth = "objective = { name = \"softmax\", label_smoothing = 0.1 }\n";
  const Split split = make_split(pictures(7, 2));
  double expected = 0;
  for (size_t i = 0; i < 7; ++i) {
    expected += 0.9 / 7 * answer(split.outputs.logits.row(static_cast<int64_t>(i)), split.labels[i]).loss;
    for (int32_t c = 0; c < kSplitClasses; ++c) {
      expected += 0.1 / 49 * answer(split.outputs.logits.row(static_cast<int64_t>(i)), c).loss;
    }
  }
  EXPECT_NEAR(evaluate_text(smooth + section("mean", "mean", 7)).at("mean7").at("loss"), expected, kLossRounding);
}

// Of seven images, one of each class, the labels that `real` gives: right is what the model predicts.
TEST(Evaluators, SeveralRightClassesAnImage) {
  evaluate_text(section("top", "classification", 7), 1, split_folder() / "plain");
  std::vector<int> predicted;
  for (const json& line : json_lines(split_folder() / "plain/top7.jsonl")) {
    predicted.push_back(std::stoi(line["predicted"].get<std::string>().substr(1)));
  }
  const auto score = [&](const json& real) {
    testing::spill(split_folder() / "real.json", real.dump());
    const std::string options = fmt::format("real = \"{}\"", split_folder() / "real.json");
    return evaluate_text(section("top", "classification", 7, options)).at("top7").at("real@1");
  };
  const int p0 = predicted[0], p1 = predicted[1];
  const json list = {
      {p0, (p0 + 1) % 7}, {(p1 + 1) % 7, (p1 + 2) % 7}, json::array(), json::array(), json::array(), json::array(),
      {predicted[6]}};
  EXPECT_DOUBLE_EQ(score(list), 2.0 / 3);
  EXPECT_EQ(score({{"0001.png", {p1}}, {"another.png", {0}}}), 1);

  // By number, whatever the order of the data.
  const std::vector<Picture> images = pictures(7, 2);
  for (size_t i = 0; i < images.size(); ++i) {
    const std::string path = fmt::format("{}/c{}", split_folder() / "val70", i);
    fs::create_directories(path);
    testing::write_png(fmt::format("{}/ILSVRC2012_val_{:08}.png", path, 9 - i), kSplitSize, kSplitSize, images[i].rgb);
  }
  std::vector<std::vector<int>> by_number(50'000);
  by_number[8] = {p0}, by_number[7] = {(p1 + 1) % 7};
  testing::spill(split_folder() / "imagenet.json", json(by_number).dump());
  const std::string options = fmt::format("real = \"{}\"", split_folder() / "imagenet.json");
  const std::string source = fmt::format("folder({})", split_folder() / "val70");
  EXPECT_EQ(evaluate_text(section_of("top", "classification", source, options)).at("top").at("real@1"), 0.5);
}

std::string failure(const std::string& recipe, Exit code = Exit::kUsage) {
  try {
    evaluate_text(recipe);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Evaluators, MistakesNameTheirKey) {
  const std::string few = failure(section("few", "few_shot", 7, "shots = [5, 21]"), Exit::kData);
  EXPECT_THAT(few, HasSubstr("the class `c0` has 20 examples, too few for 21 shots"));
  EXPECT_THAT(few, HasSubstr("`eval.few7.train`"));
  EXPECT_THAT(failure(section("few", "few_shot", 7, "shots = []")), HasSubstr("`eval.few7.shots`"));
  EXPECT_THAT(failure(section("few", "few_shot", 7, "shots = [0]")), HasSubstr("`eval.few7.shots`"));
  EXPECT_THAT(failure(section("few", "few_shot", 7, "seeds = 0")), HasSubstr("`eval.few7.seeds`"));
  EXPECT_THAT(failure(section("few", "few_shot", 7, "l2 = 0")), HasSubstr("`eval.few7.l2`"));
  EXPECT_THAT(failure(section("knn", "knn", 7, "k = 0")), HasSubstr("`eval.knn7.k`"));
  EXPECT_THAT(failure(section("knn", "knn", 7, "temperature = -1")), HasSubstr("`eval.knn7.temperature`"));
  EXPECT_THAT(failure(section("probe", "linear_probe", 7, "c = 0")), HasSubstr("`eval.probe7.c`"));
  EXPECT_THAT(failure(section("probe", "linear_probe", 7, "max_iterations = 0")), HasSubstr("`eval.probe7.max_iterations`"));

  std::string no_train = section("knn", "knn", 7);
  no_train.resize(no_train.find("train = "));
  EXPECT_THAT(failure(no_train), HasSubstr("`eval.knn7.train.source`"));
  const auto with_train = [&](const std::string& source) {
    return no_train + fmt::format("train = {{ source = \"{}\", pp = \"decode | central_crop(8)\" }}\n", source);
  };
  EXPECT_THAT(failure(with_train("fake(images=20, classes=7)")), HasSubstr("has no class `c0`"));
  EXPECT_THAT(failure(with_train("fake(images=20, classes=7)")), HasSubstr("eval.knn7.data has 7"));

  const auto with_real = [&](const std::string& text) {
    testing::spill(split_folder() / "wrong.json", text);
    return section("top", "classification", 7, fmt::format("real = \"{}\"", split_folder() / "wrong.json"));
  };
  EXPECT_THAT(failure(with_real("nonsense")), HasSubstr("which is no JSON: line 1, column 2"));
  EXPECT_THAT(failure(with_real("7")), HasSubstr("which is no JSON list or table"));
  EXPECT_THAT(failure(with_real("[[0], [1]]")), HasSubstr("of 2 images, and the data has 7"));
  EXPECT_THAT(failure(with_real("[[0], [1], [7], [], [], [], []]")),
              HasSubstr("`c2/0002.png` has [7]; the data has classes 0 to 6"));
  EXPECT_THAT(failure(with_real("{\"elsewhere.png\": [1]}")), HasSubstr("has a class for none of the images"));
}

// ---- in a run

std::vector<int64_t> steps_with(const std::string& workdir, const std::string& key) {
  std::vector<int64_t> steps;
  for (const json& line : json_lines(small_run().path(workdir) + "/metrics.jsonl")) {
    if (line.contains(key)) steps.push_back(line["step"]);
  }
  return steps;
}

TEST(Evaluators, EachHasItsSchedule) {
  const std::string data = fmt::format("data={{source=\"folder({})\", pp=\"decode | central_crop(8) | value_range(-1, 1)\"}}",
                                       small_run().path("val"));
  const auto more = [&](const std::string& name, const std::string& every, const std::string& key) {
    return fmt::format("eval.{}={{every=\"{}\", batch=10, {}, {}}}", name, every, key, data);
  };
  const std::vector<std::string> overrides = {
      "eval_at_start=true", "eval.val.predictions=true", more("between", "5 steps", "at_end=false"),
      more("often", "4 steps", "at_end=false"), more("last", "100 %", "skip_first=true")};
  EXPECT_EQ(small_run().train("schedules", overrides).exit, Exit::kDone);
  EXPECT_EQ(steps_with("schedules", "val/loss"), (std::vector<int64_t>{0, 3, 6, 9, 12}));
  EXPECT_EQ(steps_with("schedules", "between/loss"), (std::vector<int64_t>{0, 5, 10}));
  EXPECT_EQ(steps_with("schedules", "often/loss"), (std::vector<int64_t>{0, 4, 8, 12}));
  EXPECT_EQ(steps_with("schedules", "last/loss"), (std::vector<int64_t>{12}));

  const std::string files = small_run().path("schedules") + "/evals";
  EXPECT_EQ(json_lines(files + "/val_000000012.jsonl").size(), 23u);
  EXPECT_TRUE(fs::exists(files + "/val_000000000.jsonl"));
  int64_t predictions = 0, summaries = 0;
  for (const auto& entry : fs::directory_iterator(files)) {
    ++(entry.path().extension() == ".jsonl" ? predictions : summaries);
  }
  EXPECT_EQ(predictions, 5) << "of val";
  EXPECT_EQ(summaries, 4) << "the last evaluation of each evaluator";
}

// ---- test-time augmentation

std::vector<Picture> mirrored(std::vector<Picture> images) {
  for (Picture& one : images) {
    const auto width = static_cast<size_t>(kSplitSize);
    std::vector<uint8_t> rgb(one.rgb.size());
    for (size_t i = 0; i < rgb.size() / 3; ++i) {
      const size_t from = i - i % width + (width - 1 - i % width);
      for (size_t c = 0; c < 3; ++c) rgb[3 * i + c] = one.rgb[3 * from + c];
    }
    one.rgb.assign(rgb.begin(), rgb.end());
  }
  return images;
}

TEST(Evaluators, FlipAveragesTheLogitsOfMirrorImages) {
  const std::vector<Picture> images = pictures(1003, 2);
  const Outputs plain = outputs(images), other = outputs(mirrored(images));
  double right = 0, loss = 0, changed = 0;
  for (int64_t i = 0; i < 1003; ++i) {
    const auto a = plain.logits.row(i), b = other.logits.row(i);
    std::vector<double> logits;
    for (size_t c = 0; c < a.size(); ++c) logits.push_back((double{a[c]} + double{b[c]}) / 2);
    const auto label = static_cast<size_t>(images[static_cast<size_t>(i)].label);
    double sum = 0;
    for (const double one : logits) sum += std::exp(one);
    loss += std::log(sum) - logits[label];
    right += std::ranges::max_element(logits) - logits.begin() == static_cast<ptrdiff_t>(label) ? 1 : 0;
    changed += std::ranges::equal(a, b) ? 0 : 1;
  }
  ASSERT_GT(changed, 900);
  for (const int64_t count : {1, 8}) {
    const Scores scores = evaluate_text(section("top", "classification", 1003, "tta = \"flip\""), count).at("top1003");
    EXPECT_EQ(scores.at("prec@1"), right / 1003);
    EXPECT_NEAR(scores.at("loss"), loss / 1003, 1e-5);
  }
  EXPECT_THAT(
      [] {
        try {
          evaluate_text(section("top", "classification", 7, "tta = \"filp\""));
        } catch (const Error& error) {
          return std::string(error.what());
        }
        return std::string();
      }(),
      AllOf(HasSubstr("eval.top7.tta"), HasSubstr("flip")));
}

// torchvision's FiveCrop and TenCrop (tools/references/images/crops.py).
TEST(Evaluators, CropsLieWhereTorchvisionCuts) {
  std::ifstream file(testing::source_path("tests/references/crops.json"));
  const json cases = json::parse(file);
  ASSERT_EQ(cases.size(), 6u);
  for (const json& one : cases) {
    for (const auto& [name, tta] : {std::pair{"five", evaluators::Tta::kFiveCrops}, {"ten", evaluators::Tta::kTenCrops}}) {
      const auto views = evaluators::tta_views(tta, one["image"][0], one["image"][1], one["crop"][0], one["crop"][1]);
      json got;
      for (const evaluators::View& view : views) got.push_back({view.top, view.left, view.mirrored});
      EXPECT_EQ(got, one[name]) << one;
    }
  }
}

// The images are 11 x 10, and the model sees crops of 8 x 8.
TEST(Evaluators, CropsAverageTheLogitsOfTheirParts) {
  constexpr int64_t kHeight = 11, kWidth = 10, kCount = 21;
  const testing::TempDir dir;
  std::vector<Picture> large;
  for (int64_t i = 0; i < kCount; ++i) {
    Picture one{static_cast<int32_t>(i / 3), fmt::format("c{}/{:04}.png", i / 3, i), {}, {}};
    Rng rng(3, static_cast<uint64_t>(i));
    for (int64_t p = 0; p < kHeight * kWidth * 3; ++p) one.rgb.push_back(static_cast<uint8_t>(rng.below(256)));
    fs::create_directories(fs::path(dir / one.id).parent_path());
    testing::write_png(dir / one.id, kWidth, kHeight, one.rgb);
    large.push_back(std::move(one));
  }
  const auto evaluated = [&](const std::string& tta, const std::string& size) {
    const std::string text = fmt::format(
        "[eval.top]\ntype = \"classification\"\nbatch = 16\ntta = \"{}\"\ndata = {{ source = \"folder({})\", pp = \"decode | "
        "central_crop({}) | value_range(-1, 1)\" }}\n",
        tta, dir.path(), size);
    return evaluate_text(text, 8).at("top");
  };
  for (const auto& [name, tta] :
       {std::pair{"five_crops", evaluators::Tta::kFiveCrops}, {"ten_crops", evaluators::Tta::kTenCrops}}) {
    std::vector<std::vector<double>> logits(kCount, std::vector<double>(kSplitClasses));
    const auto views = evaluators::tta_views(tta, kHeight, kWidth, kSplitSize, kSplitSize);
    for (const evaluators::View& view : views) {
      std::vector<Picture> parts = large;
      for (Picture& one : parts) {
        const std::vector<uint8_t> whole = std::move(one.rgb);
        one.rgb.clear();
        for (int64_t y = 0; y < kSplitSize; ++y) {
          const auto row = static_cast<ptrdiff_t>(((view.top + y) * kWidth + view.left) * 3);
          one.rgb.insert(one.rgb.end(), whole.begin() + row, whole.begin() + row + 3 * kSplitSize);
        }
      }
      if (view.mirrored) parts = mirrored(std::move(parts));
      const Outputs of_view = outputs(parts);
      for (int64_t i = 0; i < kCount; ++i) {
        for (size_t c = 0; c < kSplitClasses; ++c)
          logits[static_cast<size_t>(i)][c] += of_view.logits.row(i)[c] / static_cast<double>(views.size());
      }
    }
    double loss = 0;
    for (size_t i = 0; i < kCount; ++i) {
      double sum = 0;
      for (const double one : logits[i]) sum += std::exp(one);
      loss += (std::log(sum) - logits[i][i / 3]) / kCount;
    }
    EXPECT_NEAR(evaluated(name, "10, 11").at("loss"), loss, 1e-5) << name;
  }
  // Nothing larger to cut crops out of.
  for (const char* size : {"8", "7"}) {
    try {
      evaluated("ten_crops", size);
      ADD_FAILURE() << size;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("tta cuts crops of 8 x 8 out of larger ones"), HasSubstr("eval.top.data.pp")));
    }
  }
}

}  // namespace
}  // namespace tessera::train
