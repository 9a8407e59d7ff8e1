#include "pages/report/sections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "config/section.h"
#include "pages/report/classes.h"
#include "pjrt/chip.h"

namespace tessera::report {
namespace {

constexpr int kSheetWidth = 480;  // of .sheet (pages/report/style.h)

// `lines`: what is written below each.
Markup picture_grid(const Pictures& pictures, const std::vector<Markup>& lines) {
  Html html;
  html.add("<ul class=\"pictures\">\n");
  for (size_t i = 0; i < pictures.pictures.size(); ++i) {
    const Picture& picture = pictures.pictures[i];
    html.add("<li><figure>");
    if (picture.uri.empty()) {
      html.add("<div class=\"none\">{}</div>", picture.problem);
    } else {
      const int width = picture.pixels.width(), height = picture.pixels.height();
      html.add("<img src=\"{}\" alt=\"{}\" width=\"{}\" height=\"{}\"{}>", Markup{picture.uri},
               picture.caption.empty() ? picture.id : picture.caption, width, height,
               Markup{std::max(width, height) < 112 ? " class=\"small\"" : ""});
    }
    html.add("<figcaption>{}</figcaption></figure></li>\n", lines[i]);
  }
  html.add("</ul>\n");
  return html.take();
}

Markup worst_images(const train::EvaluationSummary& evaluation, const Pictures& pictures) {
  std::vector<Markup> lines;
  Pictures none;
  none.pictures.resize(evaluation.worst.size());
  for (Picture& one : none.pictures) one.problem = "not shown";
  const Pictures& shown = pictures.problem.empty() ? pictures : none;
  for (size_t i = 0; i < evaluation.worst.size(); ++i) {
    const train::WorstExample& worst = evaluation.worst[i];
    const std::string& said = shown.pictures[i].caption;  // several labels, or a text
    Html line;
    line.add("{} {:.3g}", evaluation.worst_by, worst.loss);
    if (worst.label >= 0) {
      line.add("<br>{}", class_name(evaluation, worst.label));
    } else if (!said.empty()) {
      line.add("<br>{}", said);
    }
    if (worst.predicted >= 0 && worst.predicted != worst.label) {
      line.add(", <span class=\"trouble\">taken for {}</span>", class_name(evaluation, worst.predicted));
    } else if (worst.predicted >= 0) {
      line.add(", as predicted");
    }
    if (worst.probability) line.add(" with {:.3g}\u00a0%", 100 * *worst.probability);
    line.add("<br><span class=\"soft\">{}</span>", worst.id);
    lines.push_back(line.take());
  }
  Html html;
  html.add("<h3>The {} images with the greatest {}</h3>\n", evaluation.worst.size(), evaluation.worst_by);
  if (!pictures.problem.empty()) html.add("<p class=\"soft\">Their pictures are not shown: {}</p>\n", pictures.problem);
  html.add(picture_grid(shown, lines));
  return html.take();
}

void fact(Html& html, std::string_view name, std::string_view value) {
  if (!value.empty()) html.add("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", name, value);
}

std::string bytes(int64_t count) { return human_bytes(static_cast<double>(count)); }

std::string flops_text(double flops) {
  return flops >= 1e12 ? fmt::format("{:.3g} TFLOP/s", flops / 1e12) : fmt::format("{:.3g} GFLOP/s", flops / 1e9);
}

// The keys of a recipe and their values as TOML.
using Keys = std::map<std::string, std::string>;

Keys keys_of(const std::string& recipe) {
  Keys out;
  for (config::Difference& one : config::difference("", recipe)) out.emplace(std::move(one.key), std::move(one.right));
  return out;
}

bool has_section(const Keys& keys, const std::string& name) {
  const auto first = keys.lower_bound(name + ".");
  return first != keys.end() && first->first.starts_with(name + ".");
}

// The outermost section of `key` that some recipe lacks; nothing where all have its section.
std::optional<std::string> missing_section(const std::vector<Keys>& recipes, const std::string& key) {
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    std::string section = key.substr(0, dot);
    if (!std::ranges::all_of(recipes, [&](const Keys& keys) { return has_section(keys, section); })) return section;
  }
  return std::nullopt;
}

// "max_skips = 3, window = 100"; empty without the section.
std::string section_text(const Keys& keys, const std::string& section) {
  std::string out;
  for (auto one = keys.lower_bound(section + "."); one != keys.end() && one->first.starts_with(section + "."); ++one) {
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", one->first.substr(section.size() + 1), one->second);
  }
  return out;
}

// The values of each key that is not the same in all recipes; empty where a recipe lacks it. A section that some recipes lack is
// one entry, "[guard]", however many keys it has.
std::map<std::string, std::vector<std::string>> differing_keys(const std::vector<SavedRun>& runs) {
  std::vector<Keys> recipes;
  std::set<std::string> names;
  for (const SavedRun& run : runs) {
    for (const auto& [key, value] : recipes.emplace_back(keys_of(run.recipe))) names.insert(key);
  }
  std::map<std::string, std::vector<std::string>> out;
  for (const std::string& key : names) {
    const auto section = missing_section(recipes, key);
    std::vector<std::string> values;
    for (const Keys& keys : recipes) {
      const auto found = keys.find(key);
      values.push_back(section ? section_text(keys, *section) : found == keys.end() ? "" : found->second);
    }
    if (std::ranges::adjacent_find(values, std::not_equal_to()) != values.end()) {
      out.emplace(section ? "[" + *section + "]" : key, std::move(values));
    }
  }
  return out;
}

}  // namespace

Markup evaluation_section(const train::EvaluationSummary& evaluation, const Pictures& worst) {
  Html html;
  html.add("<h2>Evaluation: {}</h2>\n<p>{} images at step {}", evaluation.name, human_count(evaluation.count),
           human_count(evaluation.step));
  for (const train::Score& score : evaluation.scores) {
    html.add(", {} {}", score.name, keep_percentages(MainScore{"", score.name, score.share}.text(score.value)));
  }
  html.add(".</p>\n");
  if (!evaluation.confusion.empty()) {
    html.add("<h3>Classes, and what they were taken for</h3>\n<div class=\"tables\">\n");
    html.add(class_table(evaluation));
    html.add(confusion_table(evaluation));
    html.add(confused_pairs(evaluation));
    html.add("</div>\n");
    if (evaluation.left_out > 0) {
      html.add("<p class=\"soft\">{} images in rare cells of the matrix are left out.</p>\n", human_count(evaluation.left_out));
    }
  }
  if (!evaluation.worst.empty()) html.add(worst_images(evaluation, worst));
  return html.take();
}

Markup training_images(const Pictures& pictures) {
  Html html;
  html.add("<h2>Training images as the model sees them</h2>\n");
  if (pictures.problem.empty()) {
    html.add("<p class=\"soft\">{} images of the first epoch, after <code>{}</code>.{}</p>\n", pictures.pictures.size(),
             pictures.chain, pictures.mixed.uri.empty() ? "" : " What the device then does with a batch is shown below them.");
    std::vector<Markup> lines;
    for (const Picture& picture : pictures.pictures) {
      Html line;
      if (!picture.caption.empty()) line.add("{}<br>", picture.caption);
      line.add("<span class=\"soft\">{}</span>", picture.id);
      lines.push_back(line.take());
    }
    html.add(picture_grid(pictures, lines));
  } else {
    html.add("<p class=\"soft\">Not shown: {}</p>\n", pictures.problem);
  }
  if (const Picture& mixed = pictures.mixed; !mixed.uri.empty()) {
    html.add("<h3>The first batch, as the device mixed and erased it</h3>\n");
    html.add("<img class=\"sheet{}\" src=\"{}\" alt=\"images of the first batch\" width=\"{}\" height=\"{}\">\n",
             mixed.pixels.width() < kSheetWidth ? " small" : "", Markup{mixed.uri}, mixed.pixels.width(),
             mixed.pixels.height());
  }
  return html.take();
}

Markup time_section(const TimeShares& time) {
  Html html;
  if (!(time.total > 0)) return html.take();
  struct Segment {
    const char *name, *color;
    double seconds;
  };
  const std::array<Segment, 4> parts = {{{"training", "#2da44e", time.training},
                                         {"waiting for images", "#d9485f", time.waiting},
                                         {"starting (compiling, first batches)", "#a371f7", time.starting},
                                         {"evaluations, saves, later starts", "#e0812b", time.other}}};
  html.add(
      "<h2>Where the time went</h2>\n<p>{} in all, {:.4g} images a second while training.</p>\n<div class=\"bar\" "
      "aria-hidden=\"true\">",
      human_duration(time.total), time.images_per_second);
  for (const Segment& part : parts)
    html.add("<span style=\"flex:{:.4f};background:{}\"></span>", part.seconds / time.total, part.color);
  html.add(
      "</div>\n<table><thead><tr><th scope=\"col\">part</th><th scope=\"col\">time</th><th scope=\"col\">%</th></tr></thead>"
      "<tbody>\n");
  for (const Segment& part : parts) {
    html.add(
        "<tr><th scope=\"row\"><span class=\"key\" style=\"background:{}\"></span>{}</th><td>{}</td><td>{:.1f}</td></tr>\n",
        part.color, part.name, human_duration(part.seconds), 100 * part.seconds / time.total);
  }
  html.add("</tbody></table>\n");
  if (!time.stages.empty()) {
    html.add("<p>Of the input threads' work:");
    for (size_t i = 0; i < time.stages.size(); ++i) {
      html.add("{} {} {:.0f}\u00a0%", i > 0 ? "," : "", time.stages[i].first, 100 * time.stages[i].second);
    }
    html.add(".</p>\n");
  }
  return html.take();
}

Markup resources(const SavedRun& run, const TimeShares& time) {
  Html html;
  if (!run.facts) return html.take();
  const train::RunFacts& facts = *run.facts;
  html.add("<h2>Memory and speed</h2>\n<div class=\"wide\"><table class=\"facts\"><tbody>\n");
  const pjrt::CompiledMemory& planned = facts.planned;
  const int64_t step =
      std::max(planned.peak, planned.arguments + planned.temporaries);  // the CPU plugin leaves temporaries out of its peak
  fact(html, "a training step, as the compiler planned it",
       step > 0 ? fmt::format("{} of a device's memory ({} of arguments, {} of temporaries)", bytes(step),
                              bytes(planned.arguments), bytes(planned.temporaries))
                : "");
  fact(html, "device memory in use at most", facts.device_peak ? bytes(*facts.device_peak) : "the plugin does not tell");
  if (facts.device_memory) fact(html, "device memory", bytes(*facts.device_memory));
  fact(html, "host memory in use at most", facts.host_peak > 0 ? bytes(facts.host_peak) : "");
  if (time.images_per_second > 0) {
    const double flops = 3 * facts.flops * time.images_per_second;
    fact(html, "speed while training",
         fmt::format("{:.4g} images a second, {} of products on {} {}", time.images_per_second, flops_text(flops),
                     facts.devices, facts.devices == 1 ? "device" : "devices"));
    if (const pjrt::Chip* chip = pjrt::chip_of_device(facts.device_kind)) {
      const bool bf16 = run.recipe.find("\ndtype = \"bf16\"") != std::string::npos;
      const double peak = (bf16 ? chip->bf16_flops : chip->f32_flops) * static_cast<double>(facts.devices);
      fact(html, "as planned by the products alone",
           fmt::format("{:.4g} images a second; {:.1f}\u00a0% of that was reached (MFU)", peak / (3 * facts.flops),
                       100 * flops / peak));
    }
  }
  html.add("</tbody></table></div>\n");
  return html.take();
}

Markup origin(const SavedRun& run) {
  Html html;
  html.add("<h2>How it was made</h2>\n<div class=\"wide\"><table class=\"facts\"><tbody>\n");
  fact(html, "run", run.path);
  if (run.facts) {
    const train::RunFacts& facts = *run.facts;
    fact(html, "command", facts.command);
    fact(html, "version", facts.version);
    fact(html, "devices", fmt::format("{} × {} ({})", facts.devices, facts.device_kind, facts.platform));
    fact(html, "plugin", facts.plugin);
    fact(html, "parameters", human_count(facts.parameters));
  }
  html.add("</tbody></table></div>\n");
  if (!run.recipe.empty()) html.add("<details><summary>The whole recipe</summary>\n<pre>{}</pre>\n</details>\n", run.recipe);
  return html.take();
}

Markup recipe_differences(const std::vector<SavedRun>& runs) {
  Html html;
  html.add("<h2>Keys of the recipes that differ</h2>\n");
  std::map<std::string, std::vector<std::string>> keys;
  try {
    keys = differing_keys(runs);
  } catch (const Error& error) {
    html.add("<p class=\"trouble\">The recipes can't be compared: {}</p>\n", error.message());
    return html.take();
  }
  if (keys.empty()) {
    html.add("<p>The recipes are the same.</p>\n");
    return html.take();
  }
  html.add("<div class=\"wide\"><table class=\"facts\"><thead><tr><th scope=\"col\">key</th>");
  for (const SavedRun& run : runs) html.add("<th scope=\"col\">{}</th>", run.name);
  html.add("</tr></thead><tbody>\n");
  for (const auto& [key, values] : keys) {
    html.add("<tr><th scope=\"row\"><code>{}</code></th>", key);
    for (const std::string& value : values) html.add("<td>{}</td>", value.empty() ? "–" : value);
    html.add("</tr>\n");
  }
  html.add("</tbody></table></div>\n");
  return html.take();
}

}  // namespace tessera::report
