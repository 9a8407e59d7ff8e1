// Averaged weights and plateaus in whole runs on the CPU plugin: what is evaluated, saved, resumed and taken out again.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inference/plain_weights.h"
#include "inference/use_model.h"
#include "support/clock_keys.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using testing::small_run;

std::map<int64_t, nlohmann::json> lines_of(const std::string& workdir) {
  std::map<int64_t, nlohmann::json> lines;
  std::istringstream text(testing::slurp(small_run().path(workdir) + "/metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    testing::erase_clock_keys(json);
    const int64_t step = json["step"];
    lines[step] = std::move(json);
  }
  return lines;
}

std::string state_of(const std::string& workdir) {
  return testing::slurp(small_run().path(workdir) + "/checkpoints/step_000000012/state.safetensors");
}

// The run `workdir` again from its checkpoint of step `from`, as `copy`: must end with the same bytes.
void expect_resumes(const std::string& workdir, const std::string& copy, int64_t from,
                    const std::vector<std::string>& overrides) {
  fs::copy(small_run().path(workdir), small_run().path(copy), fs::copy_options::recursive);
  for (int64_t later = from + 1; later <= 12; ++later) {
    fs::remove_all(fmt::format("{}/checkpoints/step_{:09}", small_run().path(copy), later));
  }
  EXPECT_EQ(small_run().train(copy, overrides).exit, Exit::kDone);
  EXPECT_EQ(state_of(copy), state_of(workdir)) << copy;
  EXPECT_EQ(lines_of(copy), lines_of(workdir)) << copy;
}

std::string failure(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

const std::vector<std::string> kAll = {"log=1 steps", "checkpoint.every=1 steps", "checkpoint.keep=99", "eval_at_start=true"};

std::vector<std::string> averaging() {
  std::vector<std::string> overrides = kAll;
  overrides.push_back("average={decay=0.8, start=\"4 steps\"}");
  return overrides;
}

const std::string& averaged() {
  static const std::string name = [] {
    small_run().train("plain", kAll);
    small_run().train("averaged", averaging());
    return std::string("averaged");
  }();
  return name;
}

TEST(Averages, AreEvaluatedBesideTheWeightsAndDontTouchThem) {
  auto lines = lines_of(averaged()), plain = lines_of("plain");
  ASSERT_EQ(lines.size(), 13u);
  for (auto& [step, line] : lines) {
    EXPECT_EQ(line["l2_params"], plain[step]["l2_params"]) << step;
    EXPECT_EQ(line.contains("val_ema/loss"), line.contains("val/loss")) << step;
  }
  // A copy until `start`, and behind the weights after it.
  EXPECT_EQ(lines[0]["val_ema/loss"], lines[0]["val/loss"]);
  EXPECT_EQ(lines[3]["val_ema/loss"], lines[3]["val/loss"]);
  EXPECT_GT(lines[12]["val_ema/loss"], lines[12]["val/loss"]);
  EXPECT_LT(lines[12]["val_ema/loss"], lines[3]["val/loss"]);
}

TEST(Averages, ResumeBitForBit) { expect_resumes(averaged(), "averaged-again", 7, averaging()); }

// What is drawn at random hangs on the step, wherever a run began.
TEST(Averages, ResumeWithEverythingThatIsRandom) {
  std::vector<std::string> overrides = averaging();
  overrides.insert(
      overrides.end(),
      {"model.dropout=0.1", "model.drop_path=0.2", "accumulate=2", "data.mixup={mixup=0.8, cutmix=1.0, mode=\"elem\"}",
       "data.pp=\"decode | random_crop(8) | value_range(-1, 1) | random_erasing(0.5, mode=pixel)\""});
  small_run().train("random", overrides);
  expect_resumes("random", "random-again", 7, overrides);
}

TEST(Averages, AreTakenOutAgain) {
  const std::string from = small_run().path(averaged());
  const auto last = lines_of(averaged())[12];
  const state::LoadedModel model = state::load_model(from, state::Weights::kAverage);
  const std::vector<inference::NamedScore> scores =
      inference::evaluate(small_run().section(), model, small_run().options("unused").device);
  EXPECT_EQ(scores[0].scores.at("loss"), last["val_ema/loss"].get<double>());

  small_run().train("from-average",
                    {fmt::format("model_init={{from=\"{}\", weights=\"average\"}}", from), "eval_at_start=true"});
  EXPECT_EQ(lines_of("from-average")[0]["val/loss"], last["val_ema/loss"]);
  // Averages of the new run begin as those weights, too.
  small_run().train("average-from-average",
                    {fmt::format("model_init={{from=\"{}\"}}", from), "eval_at_start=true", "average={}"});
  EXPECT_EQ(lines_of("average-from-average")[0]["val_ema/loss"], last["val/loss"]);

  const std::string raw = small_run().path("raw.safetensors"), average = small_run().path("average.safetensors");
  inference::write_plain_weights(from, raw);
  inference::write_plain_weights(from, average, state::Weights::kAverage);
  EXPECT_EQ(testing::slurp(raw).size(), testing::slurp(average).size());
  EXPECT_NE(testing::slurp(raw), testing::slurp(average));
}

TEST(Averages, LieAsTheParametersDo) {
  for (const char* preset : {"fully_sharded", "optimizer_only"}) {
    const recipe::Recipe recipe =
        recipe::read_recipe(small_run().section({"average={}", "mesh=fsdp=2", "data.batch=12", "model.width=32",
                                                 fmt::format("sharding.preset={}", preset)}),
                            2);
    const state::StateLayout layout = recipe::recipe_layout(recipe);
    ASSERT_EQ(layout.averages, layout.params);
    for (size_t i = 0; i < layout.params; ++i) {
      EXPECT_EQ(layout.entries[layout.average_index() + i].spec, layout.entries[i].spec) << layout.entries[i].name;
    }
    EXPECT_EQ(layout.entries[layout.average_index()].name.substr(0, 8), "average/");
  }
}

TEST(Averages, MistakesTeach) {
  averaged();
  const std::string message = failure([] { state::load_model(small_run().path("plain"), state::Weights::kAverage); });
  EXPECT_NE(message.find("kept no average"), std::string::npos) << message;
  EXPECT_NE(failure([] { state::parse_weights("averag", "--weights"); }).find("did you mean `average`"), std::string::npos);
  const std::string clash = failure([] {
    small_run().train("clash",
                      {"average={}", fmt::format("eval.val_ema.data={{source=\"folder({})\", pp=\"decode | central_crop(8) | "
                                                 "value_range(-1, 1)\"}}",
                                                 small_run().path("val"))});
  });
  EXPECT_NE(clash.find("give it another name"), std::string::npos) << clash;
}

// The threshold lets no score count as better, so that the rate halves at every evaluation after the first.
std::vector<std::string> plateau() {
  std::vector<std::string> overrides = kAll;
  overrides.push_back("optimizer.lr=\"plateau(3e-3, metric=val/loss, patience=0, factor=0.5, threshold=0.99)\"");
  overrides.push_back("eval_at_start=false");
  return overrides;
}

TEST(Plateau, FallsAfterEvaluationsAndResumesBitForBit) {
  small_run().train("plateau", plateau());
  auto lines = lines_of("plateau");
  for (int64_t step = 1; step <= 12; ++step) {
    const double want = step <= 6 ? 3e-3 : step <= 9 ? 1.5e-3 : 0.75e-3;
    EXPECT_NEAR(lines[step]["lr"].get<double>(), want, 1e-9) << step;
  }
  expect_resumes("plateau", "plateau-again", 8, plateau());
  expect_resumes("plateau", "plateau-early", 6, plateau());
}

TEST(Plateau, NeedsAMetricThatEvaluatorsGive) {
  const std::string message =
      failure([] { small_run().train("no-metric", {"optimizer.lr=\"plateau(1e-3, metric=val/los)\""}); });
  EXPECT_NE(message.find("did you mean `val/loss`"), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera::train
