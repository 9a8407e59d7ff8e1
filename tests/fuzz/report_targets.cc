#include <algorithm>

#include "fuzz/targets.h"
#include "pages/report/classes.h"
#include "pages/report/page.h"
#include "store/memory_files.h"

namespace tessera::fuzz {
namespace {

// evals/NAME.last.json. What is read is written the same again, and can be shown.
bool evaluation_summary(std::string_view bytes) {
  return parses([&] {
    const train::EvaluationSummary summary = train::parse_evaluation_summary(bytes, "fuzz");
    const std::string written = train::to_json(summary);
    TESSERA_CHECK(train::to_json(train::parse_evaluation_summary(written, "fuzz")) == written);
    report::SavedRun run;
    run.evaluations = {summary};
    report::RunPictures none;
    none.worst.resize(1);
    none.worst[0].problem = "there are none";
    TESSERA_CHECK(report::run_page(run, none).find("<script") == std::string::npos);
    TESSERA_CHECK(report::confusion_csv(summary).starts_with("label,") && report::classes_csv(summary).starts_with("class,"));
    return true;
  });
}

// run.json.
bool run_facts(std::string_view bytes) {
  return parses([&] {
    report::SavedRun run;
    run.facts = train::parse_run_facts(bytes, "fuzz");
    const std::string written = train::to_json(*run.facts);
    TESSERA_CHECK(train::to_json(train::parse_run_facts(written, "fuzz")) == written);
    TESSERA_CHECK(report::run_page(run, {}).find("<script") == std::string::npos);
    return true;
  });
}

// A run's metrics.jsonl and, each behind a zero byte where there is one, its recipe.toml, run.json and evals/val.last.json: as a
// page of its curves and the verdict on it.
bool metrics(std::string_view bytes) {
  testing::MemoryFiles files;
  files.make_directories("run/evals");
  for (const char* name : {"metrics.jsonl", "recipe.toml", "run.json", "evals/val.last.json"}) {
    const size_t end = std::min(bytes.find('\0'), bytes.size());
    store::write_atomic(files, std::string("run/") + name, bytes.substr(0, end));
    if (end == bytes.size()) break;
    bytes.remove_prefix(end + 1);
  }
  return parses([&] {
    const std::vector<report::SavedRun> runs = report::read_runs({"run"}, files);
    report::RunPictures none;
    none.worst.resize(runs[0].evaluations.size());
    TESSERA_CHECK(report::run_page(runs[0], none).find("<script") == std::string::npos);
    TESSERA_CHECK(report::compare_page({runs[0], runs[0]}).find("<script") == std::string::npos);
    TESSERA_CHECK(!parses([&] { return report::read_runs({"run", "run/"}, files).empty(); }));
    return !runs[0].rows.empty();
  });
}

}  // namespace

const std::vector<NamedTarget>& report_targets() {
  static const std::vector<NamedTarget> all = {
      {"evaluation_summary", evaluation_summary, 1024}, {"run_facts", run_facts, 1024}, {"metrics", metrics, 4096}};
  return all;
}

}  // namespace tessera::fuzz
