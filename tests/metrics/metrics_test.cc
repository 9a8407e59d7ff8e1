// Against scikit-learn and big_vision: tools/references/training/metrics.py says on which features.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "metrics/class_tally.h"
#include "metrics/confusion.h"
#include "metrics/few_shot.h"
#include "metrics/linear_probe.h"
#include "metrics/multi_label.h"
#include "metrics/neighbours.h"
#include "metrics/retrieval.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::metrics {
namespace {

constexpr int64_t kWidth = 24, kClasses = 5, kTrain = 150;
constexpr int64_t kSplits[] = {1, 7, 1000, 1003};

std::vector<float> reference(const std::string& name) {
  static const testing::ReferenceFile file =
      testing::read_references(testing::source_path("tests/references/metrics.safetensors"));
  const std::vector<uint8_t>& bytes = file.tensors.at(name).bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<int32_t> reference_classes(const std::string& name) {
  const std::vector<float> values = reference(name);
  return {values.begin(), values.end()};
}

std::vector<float> centres() {
  std::vector<float> values = testing::formula_array("metrics/centres", kClasses * kWidth);
  for (float& value : values) value *= 0.25f;
  return values;
}

// Noise round the centres of their classes.
Features around(const std::string& noise, const std::vector<int32_t>& labels, double scale = 1) {
  Features features{kWidth, testing::formula_array(noise, static_cast<int64_t>(labels.size()) * kWidth, scale)};
  const std::vector<float> of_class = centres();
  for (size_t i = 0; i < features.values.size(); ++i) {
    const auto label = static_cast<size_t>(labels[i / kWidth]);
    features.values[i] += of_class[label * kWidth + i % kWidth];
  }
  return features;
}

LabelledFeatures labelled(const std::string& name, int64_t rows) {
  LabelledFeatures result;
  for (int64_t i = 0; i < rows; ++i) result.labels.push_back(static_cast<int32_t>((7 * i + 3) % kClasses));
  result.features = around("metrics/" + name, result.labels);
  return result;
}

LabelledFeatures test_set(int64_t rows) { return labelled("test" + std::to_string(rows), rows); }

// The first `shots` rows of each class, class by class.
LabelledFeatures first_of_each_class(const LabelledFeatures& all, int64_t shots) {
  std::vector<int64_t> rows;
  LabelledFeatures taken;
  for (int32_t c = 0; c < kClasses; ++c) {
    int64_t left = shots;
    for (size_t i = 0; i < all.labels.size() && left > 0; ++i) {
      if (all.labels[i] == c) rows.push_back(static_cast<int64_t>(i)), taken.labels.push_back(c), --left;
    }
  }
  taken.features = take_rows(all.features, rows);
  return taken;
}

TEST(FewShot, EqualsBigVision) {
  const LabelledFeatures train = labelled("train", kTrain);
  for (const char* shots : {"1", "5", "10", "all"}) {
    const LabelledFeatures chosen = std::string(shots) == "all" ? train : first_of_each_class(train, std::stoi(shots));
    for (const int64_t n : kSplits) {
      const LabelledFeatures test = test_set(n);
      const std::vector<int32_t> predicted = least_squares_classes(chosen, test.features, kClasses);
      const std::string key = std::string("few_shot/") + shots + "/" + std::to_string(n);
      const std::vector<int32_t> expected = reference_classes(key);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(predicted[i], expected[i]) << key << " " << i;
      EXPECT_FLOAT_EQ(static_cast<float>(share_equal(predicted, test.labels)), reference(key + "/accuracy")[0]) << key;
    }
  }
}

TEST(FewShot, DrawsTheShotsOfEachClass) {
  const std::vector<int32_t> labels = labelled("train", kTrain).labels;
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  const std::vector<int64_t> five = draw_shots(labels, names, 5, 1), two = draw_shots(labels, names, 2, 1);
  ASSERT_EQ(five.size(), 25u);
  EXPECT_EQ(std::set<int64_t>(five.begin(), five.end()).size(), 25u);
  for (size_t i = 0; i < five.size(); ++i) EXPECT_EQ(labels[static_cast<size_t>(five[i])], static_cast<int32_t>(i / 5));
  for (size_t c = 0; c < 5; ++c) {
    EXPECT_EQ(two[2 * c], five[5 * c]);
    EXPECT_EQ(two[2 * c + 1], five[5 * c + 1]);
  }
  EXPECT_NE(draw_shots(labels, names, 5, 2), five);
  try {
    draw_shots(labels, names, 31, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    EXPECT_STREQ(
        error.what(),
        "the class `a` has 30 examples, too few for 31 shots\nhelp: ask for fewer shots, or give a larger training set");
  }
}

TEST(Neighbours, EqualScikitLearn) {
  const LabelledFeatures train = labelled("train", kTrain);
  for (const bool uniform : {true, false}) {
    for (const int64_t n : kSplits) {
      const std::string key = std::string("knn/") + (uniform ? "uniform/" : "softmax/") + std::to_string(n);
      const NeighbourOptions options{20, uniform ? 0 : 0.07};
      EXPECT_EQ(neighbour_classes(train, test_set(n).features, kClasses, options), reference_classes(key)) << key;
    }
  }
  // More neighbours than there are rows: all of them.
  EXPECT_EQ(neighbour_classes(train, test_set(7).features, kClasses, {1000, 0}),
            neighbour_classes(train, test_set(7).features, kClasses, {kTrain, 0}));
}

TEST(LinearProbe, EqualsScikitLearn) {
  const LinearProbe probe = fit_linear_probe(labelled("train", kTrain), kClasses, {.c = 0.5});
  EXPECT_TRUE(probe.converged);
  const std::vector<float> weights = reference("probe/weights"), bias = reference("probe/bias");
  ASSERT_EQ(probe.weights.size(), weights.size());
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(probe.weights[i], weights[i], 2e-5) << i;
  for (size_t i = 0; i < bias.size(); ++i) EXPECT_NEAR(probe.bias[i], bias[i], 2e-5) << i;
  for (const int64_t n : kSplits) {
    EXPECT_EQ(probe_classes(probe, test_set(n).features), reference_classes("probe/" + std::to_string(n))) << n;
  }
}

TEST(LinearProbe, ConstantFeaturesAreHarmless) {
  LabelledFeatures train;
  train.features = {2, {0, 5, 1, 5, 2, 5, 3, 5}};
  train.labels = {0, 0, 1, 1};
  const LinearProbe probe = fit_linear_probe(train, 2, {.c = 10});
  EXPECT_TRUE(probe.converged);
  EXPECT_EQ(probe_classes(probe, train.features), train.labels);
}

TEST(Retrieval, EqualsBigVision) {
  std::vector<int32_t> labels;
  for (int i = 0; i < 40; ++i) labels.push_back((7 * i + 3) % static_cast<int>(kClasses));
  const Features images = around("metrics/images", labels);
  for (const int64_t count : {1, 7, 200}) {
    std::vector<int64_t> owner;
    for (int64_t t = 0; t < count; ++t) owner.push_back(5 * t % 40);
    Features texts = take_rows(images, owner);
    const std::vector<float> noise = testing::formula_array("metrics/texts" + std::to_string(count), count * kWidth);
    for (size_t i = 0; i < noise.size(); ++i) texts.values[i] += noise[i];
    const Recalls recalls = retrieval_recalls(images, texts, owner);
    const std::vector<float> expected = reference("retrieval/" + std::to_string(count));
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_FLOAT_EQ(static_cast<float>(recalls.image_to_text[k]), expected[k]) << count;
      EXPECT_FLOAT_EQ(static_cast<float>(recalls.text_to_image[k]), expected[3 + k]) << count;
    }
  }
}

TEST(ZeroShot, EqualsBigVision) {
  std::vector<int32_t> of_text, labels;
  for (int32_t c = 0; c < kClasses; ++c) of_text.insert(of_text.end(), 3, c);
  for (int i = 0; i < 40; ++i) labels.push_back((7 * i + 3) % static_cast<int>(kClasses));
  const Features classes = class_embeddings(around("metrics/prompts", of_text, 0.2), of_text, kClasses);
  const std::vector<float> expected = reference("zero_shot/embeddings");
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(classes.values[i], expected[i], 1e-6) << i;
  EXPECT_EQ(nearest_classes(around("metrics/images", labels), classes), reference_classes("zero_shot"));
}

TEST(Confusion, EqualsScikitLearn) {
  const std::vector<int32_t> predicted = reference_classes("knn/softmax/1003"), labels = test_set(1003).labels;
  Confusion confusion(kClasses);
  for (size_t i = 0; i < labels.size(); ++i) confusion.add(labels[i], predicted[i]);
  const std::vector<float> recall = reference("confusion/recall"), precision = reference("confusion/precision");
  for (int64_t c = 0; c < kClasses; ++c) {
    EXPECT_FLOAT_EQ(static_cast<float>(confusion.recall(c)), recall[static_cast<size_t>(c)]);
    EXPECT_FLOAT_EQ(static_cast<float>(confusion.precision(c)), precision[static_cast<size_t>(c)]);
  }
  ClassTally tally(kClasses);
  for (size_t i = 0; i < labels.size(); ++i) tally.add(labels[i], predicted[i]);
  EXPECT_FLOAT_EQ(static_cast<float>(tally.balanced_accuracy()), reference("confusion/balanced")[0]);
  std::vector<int64_t> cells(static_cast<size_t>(kClasses * kClasses));
  for (const ConfusionCell& cell : confusion_cells(labels, predicted)) {
    EXPECT_GT(cell.count, 0);
    cells[static_cast<size_t>(cell.label * kClasses + cell.predicted)] = cell.count;
  }
  for (int64_t i = 0; i < kClasses * kClasses; ++i)
    EXPECT_EQ(cells[static_cast<size_t>(i)], confusion.at(i / kClasses, i % kClasses));
  const Confusion empty(2);
  EXPECT_TRUE(std::isnan(empty.recall(0)) && std::isnan(empty.precision(1)));
}

// tools/references/training/class_scores.py
TEST(ClassTally, EqualsScikitLearn) {
  std::ifstream in(testing::source_path("tests/references/class_scores.json"));
  for (const auto& one : nlohmann::json::parse(in)) {
    ClassTally tally(one["classes"]);
    const auto labels = one["labels"].get<std::vector<int32_t>>(), predicted = one["predicted"].get<std::vector<int32_t>>();
    for (size_t i = 0; i < labels.size(); ++i) tally.add(labels[i], predicted[i]);
    const auto expect = [&](const char* name, double value) {
      if (one[name].is_null()) {
        EXPECT_TRUE(std::isnan(value)) << name << one;
      } else {
        EXPECT_NEAR(value, one[name].get<double>(), 1e-14) << name << one;
      }
    };
    expect("f1", tally.f1());
    expect("f1_weighted", tally.weighted_f1());
    expect("kappa", tally.kappa());
    expect("balanced_accuracy", tally.balanced_accuracy());
  }
}

// The numbers of a list of rows.
template <class T>
std::vector<T> flat(const nlohmann::json& rows) {
  std::vector<T> values;
  for (const auto& row : rows) {
    for (const auto& value : row) values.push_back(value.get<T>());
  }
  return values;
}

void expect_score(const nlohmann::json& wanted, double value) {
  if (wanted.is_null()) {
    EXPECT_TRUE(std::isnan(value)) << value;
  } else {
    EXPECT_NEAR(value, wanted.get<double>(), 1e-12);
  }
}

// tools/references/training/multi_label_scores.py
TEST(MultiLabelScores, EqualScikitLearn) {
  std::ifstream in(testing::source_path("tests/references/multi_label_scores.json"));
  const auto cases = nlohmann::json::parse(in);
  for (const auto& one : cases["multi_label"]) {
    SCOPED_TRACE(one);
    const Features logits{std::ssize(one["logits"][0]), flat<float>(one["logits"])};
    const MultiLabelScores scores(logits, flat<uint8_t>(one["labels"]), one["threshold"]);
    expect_score(one["mAP"], scores.mean_average_precision());
    expect_score(one["roc_auc"], scores.auc());
    expect_score(one["f1_micro"], scores.f1_micro());
    expect_score(one["f1_macro"], scores.f1_macro());
  }
  for (const auto& one : cases["one_label"]) {
    SCOPED_TRACE(one);
    const Features logits{std::ssize(one["logits"][0]), flat<float>(one["logits"])};
    expect_score(one["roc_auc"], one_vs_rest_auc(logits, one["labels"].get<std::vector<int32_t>>()));
  }
}

TEST(Ranking, CountsEqualScoresHalfAndNaNLast) {
  const auto of = [](std::vector<double> scores, std::vector<uint8_t> of_class) { return rank(scores, of_class); };
  EXPECT_EQ(of({1, 1, 1, 1}, {1, 0, 0, 1}).auc, 0.5);
  EXPECT_EQ(of({1, 1, 1, 1}, {1, 0, 0, 1}).average_precision, 0.5);
  EXPECT_EQ(of({std::nan(""), -100, 3}, {1, 0, 0}).auc, 0);
  EXPECT_EQ(of({3, std::nan("")}, {1, 0}).auc, 1);
  EXPECT_TRUE(std::isnan(of({1, 2}, {0, 0}).average_precision));
  EXPECT_TRUE(std::isnan(of({1, 2}, {1, 1}).auc));
  EXPECT_EQ(of({1, 2}, {1, 1}).average_precision, 1);
}

TEST(ClassTally, CountsExamplesWithoutAnAnswerAsWrong) {
  ClassTally tally(2);
  tally.add(0, 0), tally.add(1, 2), tally.add(1, 1), tally.add(1, 2);
  EXPECT_DOUBLE_EQ(tally.balanced_accuracy(), (1 + 1 / 3.0) / 2);
  EXPECT_DOUBLE_EQ(tally.f1(), (1 + 2 / 4.0) / 2);
  const ClassTally empty(2);
  EXPECT_TRUE(std::isnan(empty.f1()) && std::isnan(empty.weighted_f1()) && std::isnan(empty.kappa()) &&
              std::isnan(empty.balanced_accuracy()));
}

TEST(MultiLabelAccuracy, CountsExamplesThatHaveLabels) {
  MultiLabelAccuracy accuracy;
  EXPECT_TRUE(std::isnan(accuracy.value()));
  accuracy.add(std::vector<int32_t>{3, 5}, 5);
  accuracy.add(std::vector<int32_t>{}, 1);
  accuracy.add(std::vector<int32_t>{2}, 1);
  EXPECT_EQ(accuracy.counted(), 2);
  EXPECT_EQ(accuracy.value(), 0.5);
}

}  // namespace
}  // namespace tessera::metrics
