// What shells complete.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <regex>
#include <set>

#include "base/text/text.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

using Words = std::vector<std::string>;

// Without what is said of each.
Words candidates(const Words& words) {
  Words args{"completion", "candidates", "--"};
  args.insert(args.end(), words.begin(), words.end());
  const Outcome outcome = run_program(args);
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  Words out;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) out.push_back(line.substr(0, line.find('\t')));
  return out;
}

TEST(Completion, OffersCommandsFlagsKeysAndValues) {
  EXPECT_THAT(candidates({"tr"}), ElementsAre("train"));
  EXPECT_THAT(candidates({""}), Contains("data"));
  EXPECT_THAT(candidates({"data", "c"}), ElementsAre("check", "convert"));
  EXPECT_THAT(candidates({"train", "--work"}), ElementsAre("--workdir"));
  EXPECT_THAT(candidates({"train", "--platform", ""}), ElementsAre("auto", "cpu", "cuda", "tpu"));
  EXPECT_THAT(candidates({"train", "--platform=c"}), ElementsAre("--platform=cpu", "--platform=cuda"));
  EXPECT_THAT(candidates({"export", "--format", ""}), ElementsAre("timm", "hugging_face", "big_vision", "stablehlo"));
  EXPECT_THAT(candidates({"eval", "--weights", "a"}), ElementsAre("average"));
  EXPECT_THAT(candidates({"predict", "--dtype", ""}), ElementsAre("f32", "bf16"));
  EXPECT_THAT(candidates({"data", "convert", "--to", "t"}), ElementsAre("tfrecord", "tar"));
  EXPECT_THAT(candidates({"export", "--to", ""}), ElementsAre());
  EXPECT_THAT(candidates({"train", "--workdir", ""}), ElementsAre()) << "the shell knows names of files";
  EXPECT_THAT(candidates({"train", ""}), ElementsAre()) << "of recipes too";
  EXPECT_THAT(candidates({"train", "--workdir", "runs/a", "s"}), ElementsAre());
  EXPECT_THAT(candidates({"train", "--new", "a.toml", "see"}), ElementsAre("seed="));
  EXPECT_THAT(candidates({"sweep", "a.toml", "lr"}), ElementsAre("lr="));
  EXPECT_THAT(candidates({"train", "a.toml", "optimizer.weight"}), ElementsAre("optimizer.weight_decay="));
  EXPECT_THAT(candidates({"train", "a.toml", "optimizer.name=nada"}),
              UnorderedElementsAre("optimizer.name=nadam", "optimizer.name=nadamw"));
  EXPECT_THAT(candidates({"train", "a.toml", "eval_at_start="}), ElementsAre("eval_at_start=true", "eval_at_start=false"));
  EXPECT_THAT(candidates({"train", "a.toml", "data.mix"}), Not(Contains(HasSubstr("NAME"))));
  EXPECT_THAT(candidates({"train", "a.toml", "eval.v"}), ElementsAre());
  EXPECT_THAT(candidates({"train", "a.toml", "eval.val.ever"}), ElementsAre("eval.val.every="));
  EXPECT_THAT(candidates({"train", "a.toml", "eval.val.type=zero"}), ElementsAre("eval.val.type=zero_shot"));
  EXPECT_THAT(candidates({"train", "a.toml", "model.name=resnet", "model.variant=resnet101d"}),
              ElementsAre("model.variant=resnet101d"));
  EXPECT_THAT(candidates({"train", "a.toml", "model.name=vit", "model.variant=resnet101c"}), ElementsAre());
  EXPECT_THAT(candidates({"models", "mix"}), ElementsAre("mixer"));
  EXPECT_THAT(candidates({"help", "flip_l"}), ElementsAre("flip_lr"));
  for (const CommandEntry& entry : commands()) {
    const std::string name(entry.name), first = name.substr(0, name.find(' '));
    EXPECT_THAT(candidates({first.substr(0, 3)}), Contains(first));
  }
}

// A flag whose help begins with all that it takes has it from a OneOf, and shells offer that.
TEST(Completion, OffersWhatHelpLists) {
  const std::regex list("([a-z0-9_]+, )*[a-z0-9_]+,? or [a-z0-9_]+([ ,:;(].*)?");
  std::set<std::string> known;
  for (const CommandEntry& entry : commands()) {
    const std::unique_ptr<Command> command = entry.make();
    Flags flags;
    CommonFlags common;
    command->declare(flags);
    declare_common_flags(flags, common);
    for (const Flag& flag : flags.all()) {
      EXPECT_EQ(std::regex_match(flag.help, list), !flag.values.empty()) << entry.name << " " << flag.name << ": " << flag.help;
      if (flag.values.empty() || (flag.common && !known.insert(flag.name).second)) continue;
      EXPECT_THAT(flag.help, StartsWith(listed({flag.values})));
      Words words = split(std::string(entry.name), ' ');
      words.insert(words.end(), {flag.name, ""});
      EXPECT_EQ(candidates(words), flag.values) << entry.name;
      known.insert(flag.name);
    }
  }
  EXPECT_THAT(known, ElementsAre("--color", "--defaults", "--dtype", "--format", "--kind", "--platform", "--to", "--weights"));
}

TEST(Completion, HasAScriptForEachShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run_program({"completion", shell});
    EXPECT_EQ(outcome.exit, 0) << shell;
    EXPECT_THAT(outcome.out, HasSubstr("completion candidates --")) << shell;
  }
  const Outcome wrong = run_program({"completion", "tcsh"});
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("bash, zsh or fish"));
}

// bash itself, told what was typed.
std::string completed_by_bash(const std::string& line) {
  const std::string program = testing::program_path();
  const TempFolder folder;
  write_file(folder / "complete.sh", "source <(" + program + " completion bash)\nCOMP_LINE='" + program + " " + line +
                                         "'\nCOMP_POINT=${#COMP_LINE}\n_tessera 2>/dev/null\necho \"${COMPREPLY[*]}\"\n");
  FILE* pipe = ::popen(("bash " + (folder / "complete.sh").string()).c_str(), "r");
  std::string out;
  char part[256];
  while (pipe && std::fgets(part, sizeof part, pipe)) out += part;
  if (pipe) ::pclose(pipe);
  return out;
}

TEST(Completion, WorksInBash) {
  EXPECT_EQ(completed_by_bash("tra"), "train\n");
  EXPECT_EQ(completed_by_bash("data "), "check show index tokenizer convert prepare bench\n");
  EXPECT_EQ(completed_by_bash("train a.toml --workd"), "--workdir\n");
  EXPECT_EQ(completed_by_bash("export --format b"), "big_vision\n");
  EXPECT_EQ(completed_by_bash("data tokenizer --kind "), "unigram bpe char word\n");
  EXPECT_EQ(completed_by_bash("train a.toml --platform=cu"), "cuda\n");
  EXPECT_EQ(completed_by_bash("train a.toml dtype=b"), "bf16\n") << "a word of its own after the =";
}

}  // namespace
}  // namespace tessera::cli
