// The commands of README and docs, run as they stand, in a project whose recipes, data and runs have the names that they use. This
// file says which commands are shortened, which are not run, and what replaces a device that the test's machine lacks.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "cli/documents/document_project.h"
#include "cli/documents/documents.h"
#include "cli/run_program.h"
#include "config/node.h"
#include "recipe/recipe.h"

namespace tessera::cli {
namespace {

struct Text {
  std::string text;   // in a command
  std::string other;  // why it is not run, or what the project has for it
};

// Commands that are not run.
const std::vector<Text> kNotRun = {
    {"gs://", "a bucket: buckets_test.cc and bucket_runs_test.cc run such commands on a server of their own"},
    {"s3://", "a bucket"},
    {"hf://", "the internet: web_data_test.cc"},
    {"plugin install", "the internet, and gigabytes: plugin_test.cc and tests/pjrt/install"},
    {"\"mlflow\"", "a server of MLflow: mlflow_test.cc"},
    {"--sweep h100:1x8", "half a minute of compilation: tests/plan"},
    {"etcd-host", "a second host: launch_ssh_test.cc"},
};

// What a document says, and what the project has for it.
const std::vector<Text> kStandIns = {
    {"--platform tpu", "--platform cpu"}, {"--platform cuda", "--platform cpu"}, {"/shared/runs/vit_b", "shared/runs/vit_b"},
    {"/opt/tessera/recipes", "recipes"},  {"runs/long@80000", "runs/long@5"},
};

// The command lines of a document. In a block that shows output too, they follow a `$`.
std::vector<std::string> command_lines(const std::string& document) {
  std::vector<std::string> out;
  for (const Found& found : code_in(document)) {
    if (found.in_text) continue;
    std::string line = found.line.starts_with("$ ") ? found.line.substr(2) : found.line;
    if (line.starts_with("bin/")) line = line.substr(4);
    if (line.starts_with("tessera ")) out.push_back(line);
  }
  return out;
}

// Replaces a word that sets the same key, or adds one.
void set_key(Words& words, const std::string& setting) {
  const std::string key = setting.substr(0, setting.find('=') + 1);
  const auto same = std::ranges::find_if(words, [&](const std::string& word) { return word.starts_with(key); });
  if (same != words.end())
    *same = setting;
  else
    words.push_back(setting);
}

void add_flag(Words& words, const std::string& flag) {
  if (std::ranges::find(words, flag) == words.end()) words.insert(words.begin() + 2, flag);
}

// The recipe that a command names; empty: none.
std::string recipe_of(const Words& words, const fs::path& project) {
  for (const std::string& word : words) {
    if (word.ends_with(".toml") && fs::exists(project / word)) return read_file(project / word);
  }
  return "";
}

// Of a topology as v5e:16x16.
int64_t chips_of(const Words& words) {
  const auto flag = std::ranges::find(words, "--topology");
  if (flag == words.end() || flag + 1 == words.end()) return 1;
  int64_t chips = 1;
  for (std::istringstream sizes((flag + 1)->substr((flag + 1)->find(':') + 1)); sizes; sizes.ignore()) {
    int64_t size = 0;
    if (sizes >> size) chips *= size;
  }
  return chips;
}

// Makes a command short: training takes ten steps of a small model, the search for a rate twenty, and what is for other hosts or
// translates another program's command line is shown alone.
void shorten(Words& words, const fs::path& project) {
  const std::string command = words[1];
  for (std::string& word : words) word = with_short_phases(word);
  if (command == "launch" && !words[2].starts_with("local:")) return add_flag(words, "--dry-run");
  if (command == "timm" || command == "vit10b") return add_flag(words, "--print-recipe");
  if (command == "lr-find") add_flag(words, "--steps=20");
  const std::string recipe = recipe_of(words, project);
  if (recipe.empty() && command != "fine-tune") return;
  const bool from_weights = command == "fine-tune", plans = command == "plan";
  for (const std::string& setting : shortened(recipe)) {
    if (from_weights && setting.starts_with("model.")) continue;
    if (plans && setting.find(".source=") != std::string::npos) continue;
    // The document's own rate is as short.
    const bool own = setting.starts_with("optimizer.lr=") &&
                     std::ranges::any_of(words, [](const std::string& word) { return word.starts_with("optimizer.lr="); });
    if (!own) set_key(words, setting);
  }
  // An image for each core of the chips, and a compiler in a hurry.
  if (plans) {
    words.emplace_back("optimization_level=0");
    for (std::string& word : words) {
      if (word.ends_with("batch=8")) word.replace(word.size() - 1, 1, std::to_string(2 * chips_of(words)));
    }
  }
}

// A server is ended once it says where it is.
Outcome run_server(const Words& args, const fs::path& project) {
  RunningProgram server(args, project, project_environment(project));
  while (server.running() && (server.out() + server.err()).find("http://") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  server.send(SIGTERM);
  return server.wait();
}

// Of all programs that have ended.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class DocumentCommands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    fs::create_directories(*folder_ / "project");
    write_project(*folder_ / "project");
  }
  static void TearDownTestSuite() { delete folder_; }

  // A project of this document's own.
  static fs::path project_for(const std::string& document) {
    fs::path project = *folder_ / fs::path(document).stem().string();
    fs::copy(*folder_ / "project", project, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    if (const std::string recipe = recipe_in(document); !recipe.empty()) {
      for (const char* name : {"recipe.toml", "photos.toml"}) write_file(project / name, recipe);
    }
    return project;
  }

  void run(std::string line, const fs::path& project) {
    for (const Text& stand_in : kStandIns) {
      if (const size_t at = line.find(stand_in.text); at != std::string::npos) {
        line.replace(at, stand_in.text.size(), stand_in.other);
        used_.insert(stand_in.text);
      }
    }
    Words words = shell_words(line);
    shorten(words, project);
    const Words args(words.begin() + 1, words.end());
    std::map<std::string, std::string> environment = project_environment(project);
    if (args[0] == "plan") environment["XLA_FLAGS"] = "";  // libtpu ends where it does not know a flag of the CPU's plugin
    const Outcome outcome = args[0] == "board" ? run_server(args, project) : run_program(args, project, environment);
    EXPECT_EQ(outcome.exit, 0) << line << "\n" << ::testing::PrintToString(args) << "\n" << outcome.err;
    if (const size_t to = line.find(" > "); to != std::string::npos)
      write_file(project / shell_words(line.substr(to + 3)).at(0), outcome.out);
  }

  static inline TempFolder* folder_ = nullptr;
  std::set<std::string> used_;  // of the two lists
};

TEST_F(DocumentCommands, Run) {
  int64_t run_lines = 0;
  for (const std::string& document : all_documents()) {
    const std::vector<std::string> lines = command_lines(document);
    if (lines.empty()) continue;
    SCOPED_TRACE(document);
    const fs::path project = project_for(document);
    for (const std::string& line : lines) {
      const auto none =
          std::ranges::find_if(kNotRun, [&](const Text& entry) { return line.find(entry.text) != std::string::npos; });
      if (none != kNotRun.end()) {
        used_.insert(none->text);
        continue;
      }
      ++run_lines;
      run(line, project);
    }
  }
  EXPECT_GT(run_lines, 80);
  for (const auto& list : {kNotRun, kStandIns}) {
    for (const Text& entry : list) EXPECT_TRUE(used_.contains(entry.text)) << "no document has " << entry.text << " any more";
  }
  fmt::print("{:.0f} s of processor time\n", processor_seconds());
  // What docs/your_images.md lists is there.
  const fs::path made = *folder_ / "your_images";
  for (const char* listed :
       {"sheet.png", "photos_timm/config.json", "answers.jsonl", "runs/photos/report/index.html", "runs/photos/summary.csv",
        "runs/photos/checkpoints", "runs/photos/recipe.toml", "runs/photos/metrics.jsonl", "runs/photos/plot.svg",
        "runs/photos/evals", "runs/photos/tb", "runs/photos/log.txt", "runs/photos/run.json"}) {
    EXPECT_TRUE(fs::exists(made / listed)) << listed;
  }
}

// Values of a recipe's text as key=value, to be laid over another one.
void add_settings(const config::Node& node, std::vector<std::string>& out) {
  if (const config::Node::Table* table = node.table()) {
    for (const auto& item : table->items) add_settings(*item, out);
  } else {
    out.push_back(node.path() + "=" + value_text(node));
  }
}

// The recipe that a block of TOML is a part of: the document's own, or one of the same kind.
std::string recipe_around(const Block& block, const std::string& document) {
  const auto has = [&](const char* text) { return block.text.find(text) != std::string::npos; };
  std::string recipe = recipe_in(document);
  if (recipe.empty() && has("tokenize(")) recipe = read_file(testing::source_path("recipes/cappa_toy.toml"));
  if (recipe.empty()) recipe = recipe_in("docs/your_images.md");
  // A mixture stands in the place of the one source.
  if (has("[data.mix."))
    recipe = std::regex_replace(recipe, std::regex("(\ndata +=.*)source = \"[^\"]*\", "), "$1",
                                std::regex_constants::format_first_only);
  // Its evaluators read other captions.
  if (has("tokenize(")) recipe = recipe.substr(0, recipe.find("\n[eval."));
  return with_short_phases(recipe);
}

// Whole recipes and parts of them are read as the trainer reads them, with the data that they name.
TEST_F(DocumentCommands, TomlBlocksAreRecipes) {
  for (const auto& [name, value] : project_environment(*folder_ / "project")) ::setenv(name.c_str(), value.c_str(), 1);
  const fs::path before = fs::current_path();
  fs::current_path(*folder_ / "project");
  int64_t blocks = 0;
  for (const std::string& document : all_documents()) {
    for (const Block& block : blocks_in(document)) {
      if (block.language != "toml") continue;
      ++blocks;
      SCOPED_TRACE(document + "\n" + block.text);
      try {
        std::vector<std::string> settings;
        add_settings(*config::parse_toml(block.text, document), settings);
        EXPECT_FALSE(settings.empty());
        settings.emplace_back("data.batch=2");
        // What trains on other classes evaluates on them.
        const bool evaluates =
            block.text.find("tokenize(") != std::string::npos || block.text.find("[eval.") != std::string::npos;
        for (const std::string& setting : std::vector<std::string>(settings)) {
          const bool names_source = setting.starts_with("data.source=") ||
                                    (setting.starts_with("data.mix.") && setting.find(".source=") != std::string::npos);
          if (!evaluates && names_source) settings.push_back("eval.val.data." + setting.substr(setting.find("source=")));
        }
        const recipe::Recipe read =
            recipe::read_recipe(config::parse_recipe(recipe_around(block, document), document, settings));
        EXPECT_EQ(read.batch, 2);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  fs::current_path(before);
  EXPECT_GT(blocks, 10);
}

}  // namespace
}  // namespace tessera::cli
