// What a run shows: histograms, profiles, sinks.

#include <fmt/format.h>
#include <re2/re2.h>

#include <set>

#include "base/text/text.h"
#include "monitor/sinks/sink.h"
#include "recipe/read_parts.h"

namespace tessera::recipe {

using config::Section;

namespace {

// "steps 2-6", "step 2", "auto", "none".
ProfilePlan read_profile(const Section& section, const std::string& text) {
  ProfilePlan plan;
  if (text == "auto") return plan;
  plan.slow_steps = text != "none";
  if (text == "none") return plan;
  static const RE2 pattern(R"(\s*steps?\s+(\d{1,15})(?:\s*-\s*(\d{1,15}))?\s*)");
  std::string last;
  if (!RE2::FullMatch(text, pattern, &plan.first, &last)) {
    section.fail("profile", fmt::format("is \"{}\"", text), R"(write "steps 2-6", "step 2", "auto" or "none")");
  }
  plan.last = last.empty() ? plan.first : std::stoll(last);
  if (plan.first < 1 || plan.last < plan.first) {
    section.fail("profile", fmt::format("is \"{}\"", text), "steps are counted from 1, and the first comes first");
  }
  return plan;
}

}  // namespace

const char* sinks_help() {
  static const std::string text = fmt::format("where measurements go besides metrics.jsonl: any of \"{}\"; [] for nowhere",
                                              join(monitor::sink_names(), "\", \""));
  return text.c_str();
}

void read_monitor(Section section, const optim::RunLength& length, Recipe& out) {
  section.bind(out.monitor);
  section.check_range("images", out.monitor.images, 0, 1000);
  section.check_range("worst", out.monitor.worst, 0, 32);
  section.check_range("projector", out.monitor.projector, 0, 10'000);
  if (out.monitor.histograms != "none") out.histograms_every = steps_of(section, "histograms", out.monitor.histograms, length);
  out.profile = read_profile(section, out.monitor.profile);
  std::set<std::string> seen;
  for (const std::string& name : out.monitor.sinks) {
    if (!monitor::find_sink(name))
      section.fail("sinks", fmt::format("names \"{}\", which is no sink", name),
                   fmt::format("known: {}", join(monitor::sink_names(), ", ")));
    if (!seen.insert(name).second) section.fail("sinks", fmt::format("names \"{}\" twice", name));
  }
}

}  // namespace tessera::recipe
