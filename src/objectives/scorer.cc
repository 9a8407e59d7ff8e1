#include "objectives/scorer.h"

#include <fmt/format.h>

#include "base/text.h"
#include "objectives/caption_scoring.h"
#include "objectives/classification.h"
#include "objectives/perplexity.h"

namespace tessera::objectives {
namespace {

using Factory = std::shared_ptr<const Scorer> (*)(config::Section, const ScorerData&);

struct Entry {
  const char* name;
  Factory make;
};

constexpr Entry kScorers[] = {
#define SCORER(name, Options, factory, help) {name, &factory},
#include "objectives/scorers.def"
#undef SCORER
};

}  // namespace

std::vector<std::string> scorer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kScorers) names.push_back(entry.name);
  return names;
}

std::shared_ptr<const Scorer> make_scorer(config::Section section, const ScorerData& data) {
  const std::string type = section.text("type", "classification");
  for (const Entry& entry : kScorers) {
    if (entry.name == type) return entry.make(std::move(section), data);
  }
  section.fail("type", fmt::format("is \"{}\", which is no evaluator", type), suggest_name(type, scorer_names()));
}

}  // namespace tessera::objectives
