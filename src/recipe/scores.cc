// Which scores a recipe's evaluators give, and which of them choose the best checkpoint and end a run early.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "recipe/read_parts.h"

namespace tessera::recipe {

using config::Section;

std::string suggest_score(const std::string& name, const std::vector<std::string>& scores) {
  static constexpr std::pair<const char*, const char*> kOthers[] = {
      {"top1", "prec@1"}, {"acc", "prec@1"},  {"acc1", "prec@1"}, {"accuracy", "prec@1"},
      {"top5", "prec@5"}, {"acc5", "prec@5"}, {"f1", "f1_macro"}, {"kappa", "cohen_kappa"}};
  const size_t slash = name.rfind('/');
  const std::string evaluator = slash == std::string::npos ? "" : name.substr(0, slash + 1), word = name.substr(slash + 1);
  for (const auto& [other, own] : kOthers) {
    if (word != other) continue;
    for (const std::string& score : scores) {
      if (score.starts_with(evaluator) && score.ends_with(std::string("/") + own))
        return fmt::format("did you mean `{}`?", score);
    }
  }
  return suggest_name(name, scores);
}

bool in_per_cent(std::string_view score, bool share) { return share && !score.ends_with("cohen_kappa"); }

bool tells_something(std::string_view score, int64_t classes) { return classes == 0 || classes > 5 || score != "prec@5"; }

std::string averaged_name(const std::string& evaluator) { return evaluator + "_ema"; }

namespace {

constexpr const char* kTrainingLoss = "training_loss";

void read_best(const Section& checkpoint, const std::vector<BestMetric>& scores, Recipe& out) {
  const std::string& name = out.checkpoint.best;
  if (name == "none") return;
  std::vector<std::string> names{"none", kTrainingLoss};
  for (const BestMetric& score : scores) names.push_back(score.name);
  const auto found = std::ranges::find(scores, name, &BestMetric::name);
  if (found != scores.end()) {
    out.best = *found;
  } else if (name == kTrainingLoss) {
    out.best = BestMetric{name};
  } else {
    checkpoint.fail("best", fmt::format("is \"{}\", which is no score of an evaluator of this recipe", name),
                    suggest_score(name, names));
  }
}

// "val/loss, patience=5 epochs, min_delta=0.001"
void read_early_stop(const Section& recipe, const std::vector<BestMetric>& scores, const optim::RunLength& length,
                     Recipe& out) {
  const std::string& text = out.run.early_stop;
  if (text.empty() || text == "none") return;
  const std::string place = recipe.place("early_stop");
  const Call written = parse_call("early_stop(" + text + ")", place);
  CallReader call(written, place);
  EarlyStop stop;
  const std::string metric = call.text("metric");
  stop.text = call.text("patience", "");
  if (stop.text.empty())
    recipe.fail("early_stop", "has no patience", "for example early_stop = \"val/loss, patience=5 epochs\"");
  stop.min_delta = call.number("min_delta", 0);
  call.finish();
  const auto found = std::ranges::find(scores, metric, &BestMetric::name);
  if (found == scores.end()) {
    std::vector<std::string> names;
    for (const BestMetric& score : scores) names.push_back(score.name);
    recipe.fail("early_stop", fmt::format("waits for \"{}\", which is no score of an evaluator of this recipe", metric),
                names.empty() ? "add one: [eval.val]" : suggest_score(metric, names));
  }
  stop.metric = *found;
  const auto evaluations = parse_number(stop.text);
  stop.evaluations = evaluations.has_value();
  if (evaluations) {
    const bool whole = *evaluations >= 1 && *evaluations <= INT32_MAX && *evaluations == std::floor(*evaluations);
    stop.patience = whole ? static_cast<int64_t>(*evaluations) : 0;
    stop.text += stop.patience == 1 ? " evaluation" : " evaluations";
  } else {
    stop.patience = config::to_steps(config::parse_duration(stop.text, place), length.batch, length.examples_per_epoch,
                                     length.total_steps, place);
  }
  if (stop.patience < 1) {
    recipe.fail("early_stop", fmt::format("has a patience of \"{}\", which must be at least 1 step or evaluation", stop.text),
                "patience=5 epochs, patience=500 steps or patience=3, which is evaluations");
  }
  if (!(stop.min_delta >= 0))
    recipe.fail("early_stop", fmt::format("has a min_delta of {}, which must not be negative", stop.min_delta));
  out.early_stop = stop;
}

}  // namespace

void read_scores(const Section& recipe, const Section& checkpoint, const optim::RunLength& length, Recipe& out) {
  std::vector<std::string> metrics;
  std::vector<BestMetric> scores;
  const auto offer = [&](const std::string& name, const EvalPlan& plan) {
    for (const evaluators::ScoreKind& score : plan.evaluator->score_kinds()) {
      metrics.push_back(name + "/" + score.name);
      scores.push_back({metrics.back(), score.share});
    }
  };
  for (const EvalPlan& plan : out.evals) {
    offer(plan.name, plan);
    if (!out.average) continue;
    offer(averaged_name(plan.name), plan);
    for (const EvalPlan& other : out.evals) {
      if (other.name != averaged_name(plan.name)) continue;
      recipe.fail("eval",
                  fmt::format("has `{}`, which is what scores of `{}` with averaged weights are called", other.name, plan.name),
                  "give it another name");
    }
  }
  read_best(checkpoint, scores, out);
  read_early_stop(recipe, scores, length, out);
  const auto& plateau = out.optimizer->schedule().plateau();
  if (!plateau || std::find(metrics.begin(), metrics.end(), plateau->metric) != metrics.end()) return;
  throw usage_error(fmt::format("the plateau's metric `{}` is none that an evaluator of this recipe gives", plateau->metric),
                    recipe.place("optimizer.lr"),
                    metrics.empty() ? "add one: [eval.val]" : suggest_name(plateau->metric, metrics));
}

std::vector<BestMetric> scores_of(const Recipe& recipe) {
  std::vector<BestMetric> scores;
  const auto add = [&](const std::string& name, const EvalPlan& plan) {
    std::vector<evaluators::ScoreKind> kinds = plan.evaluator->score_kinds();
    std::stable_partition(kinds.begin(), kinds.end(), [](const evaluators::ScoreKind& kind) { return kind.share; });
    for (const evaluators::ScoreKind& kind : kinds) scores.push_back({name + "/" + kind.name, kind.share});
  };
  for (const EvalPlan& plan : recipe.evals) {
    add(plan.name, plan);
    if (recipe.average) add(averaged_name(plan.name), plan);
  }
  scores.push_back({kTrainingLoss});
  return scores;
}

bool BestMetric::of_training() const { return name == kTrainingLoss; }

}  // namespace tessera::recipe
