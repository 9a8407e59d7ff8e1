// Help, version, flags, and what is said of a mistaken command line: which stream, which words, which exit code.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/run_program.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Models, ListsNamedModelsWithTheirCost) {
  const std::string out = run_program({"models", "resnet(18|50)"}).out;
  EXPECT_THAT(out, HasSubstr("resnet: ResNet v1.5"));
  EXPECT_THAT(out, HasSubstr("resnet18   224 px     11,689,512 parameters      3.63 GFLOP"));
  EXPECT_THAT(out, HasSubstr("resnet50   224 px     25,557,032 parameters      8.18 GFLOP"));
  EXPECT_THAT(run_program({"models", "resmlp"}).out, HasSubstr("resmlp_big_24_224"));
  EXPECT_THAT(run_program({"models", "vit"}).out, HasSubstr("So400m/14"));
  EXPECT_EQ(run_program({"models", "resnet18", "--json"}).json().at(0)["parameters"], 11'689'512);
  const auto towers = run_program({"models", "siglip_so400m14_224", "--json"}).json().at(0);
  EXPECT_EQ(towers["image_size"], 224);
  EXPECT_EQ(towers["tokens"], 16);
  EXPECT_EQ(towers["vocabulary"], 32'000);
  const auto wrong = run_program({"models", "resnet51"});
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean `resnet50`?"));
}

TEST(Help, NoArgumentsGiveTheShortHelp) {
  const Outcome outcome = run_program({});
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_EQ(outcome.err, "");
  for (const CommandEntry& entry : commands()) EXPECT_THAT(outcome.out, HasSubstr("\n  " + std::string(entry.name) + " "));
  EXPECT_EQ(run_program({"--help"}).out, outcome.out);
}

TEST(Help, EveryCommandBeginsWithTwoExamplesAndNamesItsFlags) {
  for (const CommandEntry& entry : commands()) {
    const std::string name(entry.name);
    std::vector<std::string> words;
    std::istringstream parts(name);
    for (std::string word; parts >> word;) words.push_back(word);
    words.push_back("--help");
    const Outcome outcome = run_program(words);
    EXPECT_EQ(outcome.exit, 0) << name;
    EXPECT_EQ(outcome.err, "") << name;
    EXPECT_THAT(outcome.out, StartsWith("tessera " + name + ": "));
    EXPECT_THAT(outcome.out, ContainsRegex("\n\n  tessera " + name + ".*\n      [a-z].*\n  tessera " + name + ".*\n      "));
    EXPECT_THAT(outcome.out, HasSubstr("Usage: tessera " + name));
    EXPECT_THAT(outcome.out, HasSubstr("--platform NAME"));
    EXPECT_THAT(outcome.out, HasSubstr("[TESSERA_PLATFORM]"));
  }
}

TEST(Help, AGroupListsItsCommands) {
  const Outcome outcome = run_program({"data"});
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_THAT(outcome.out, HasSubstr("data check"));
  EXPECT_THAT(outcome.out, HasSubstr("data show"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("predict")));
}

TEST(Help, ExplainsTheKeysOfARecipe) {
  const Outcome one = run_program({"help", "optimizer.weight_decay"});
  EXPECT_EQ(one.exit, 0);
  EXPECT_EQ(one.out, "  optimizer.weight_decay = 0.0\n      a number: weight decay, where the mask lets it act\n");
  EXPECT_THAT(run_program({"help", "model"}).out, HasSubstr("model.patch\n      a whole number: (vit) side of a patch"));
  EXPECT_THAT(run_program({"help", "eval.val.every"}).out, HasSubstr("eval.NAME.every = \"1 epoch\""));
  EXPECT_THAT(run_program({"help", "sharding"}).out, HasSubstr("sharding.preset = \"fully_sharded\""));
  EXPECT_THAT(run_program({"help", "nonsense"}).err, HasSubstr("tessera help lists the sections"));
  EXPECT_THAT(run_program({"help", "pp"}).out, HasSubstr("resize_small(size"));
  const std::string optimizers = run_program({"help", "optimizers"}).out;
  EXPECT_THAT(optimizers, HasSubstr("as big_vision"));
  EXPECT_THAT(optimizers, HasSubstr("momentum_decay = 0.004"));
  EXPECT_THAT(run_program({"help", "schedules"}).out, HasSubstr("one_cycle(LR, rise=25 %"));
  EXPECT_THAT(run_program({"help", "average"}).out, HasSubstr("average.warmup_power"));
  EXPECT_THAT(run_program({"help", "optimisers"}).err, HasSubstr("did you mean `optimizers`"));
  EXPECT_THAT(run_program({"help", "sources"}).out, HasSubstr("tfds(name[/config][:version]"));
  EXPECT_THAT(run_program({"help"}).out, HasSubstr("optimizer"));
  const Outcome unknown = run_program({"help", "optimizer.weight_dekay"});
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_EQ(unknown.err, "error: no key `optimizer.weight_dekay` in a recipe\nhelp: did you mean `optimizer.weight_decay`?\n");
  EXPECT_EQ(run_program({"help", "train"}).out, run_program({"train", "--help"}).out);
}

TEST(Version, IsOneLineOrOneJsonObject) {
  const Outcome line = run_program({"--version"});
  EXPECT_EQ(line.exit, 0);
  EXPECT_THAT(line.out, ::testing::MatchesRegex("tessera [0-9.]+( \\([0-9a-f]+\\))?\n"));
  const std::vector<Json> json = run_program({"--version", "--json"}).json();
  ASSERT_EQ(json.size(), 1u);
  EXPECT_THAT(json[0]["compiler"].get<std::string>(), HasSubstr("."));
  EXPECT_THAT(json[0]["pjrt_c_api"].get<std::string>(), StartsWith("0."));
  EXPECT_EQ(json[0]["plugins"][0]["platform"], "cpu");
  EXPECT_TRUE(fs::exists(json[0]["plugins"][0]["path"].get<std::string>()));
}

TEST(CommandLine, MistakesAreUsageErrorsThatTeach) {
  struct Case {
    std::vector<std::string> args;
    std::string err;
  };
  const Case cases[] = {
      {{"trian"}, "error: unknown command `trian`\nhelp: did you mean `train`?\n"},
      {{"data", "chek"}, "error: unknown command `data chek`\nhelp: did you mean `data check`?\n"},
      {{"train", "--wokdir", "x"}, "error: unknown flag `--wokdir`\nhelp: did you mean `--workdir`?\n"},
      {{"train"}, "error: tessera train needs a recipe\nhelp: tessera train recipes/digits.toml\n"},
      {{"train", "a.toml", "b.toml"},
       "error: `b.toml` is one word too many: the recipe is `a.toml` already\nhelp: settings are written key=value; tessera "
       "train --help\n"},
      {{"predict", "--from"}, "error: `--from` needs a value\nhelp: --from PATH\n"},
      {{"predict", "x.png"}, "error: `--from` is missing\nhelp: tessera predict --from runs/digits image.png\n"},
      {{"predict", "--top", "none"}, "error: `--top` takes a whole number, and is \"none\"\n"},
      {{"predict", "--top=0"}, "error: `--top` must be at least 1, and is 0\n"},
      {{"devices", "--color", "blue"}, "error: `--color` is \"blue\"\nhelp: auto, always or never\n"},
      {{"devices", "now"}, "error: `now` is one word too many\nhelp: tessera devices --help\n"},
  };
  for (const Case& c : cases) {
    const Outcome outcome = run_program(c.args);
    EXPECT_EQ(outcome.exit, 2) << c.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, c.err);
  }
}

// A URL is never a local path: nothing is made under its name.
TEST(CommandLine, UrlsAreRefused) {
  const TempFolder folder;
  write_image(folder / "image.png", 0, 0);
  write_images(folder / "train", 6);
  write_images(folder / "val", 5);
  write_file(folder / "tiny.toml", tiny_recipe());
  const std::string model = testing::source_path("tests/references/timm_local_dir");
  const std::vector<std::vector<std::string>> commands = {
      {"train", "tiny.toml", "--workdir", "gs://b/run"},
      {"train", "tiny.toml", "data.source=\"folder(s3://b/train)\""},
      {"train", "tiny.toml", "data.source=\"wds(gs://b/train-{000..009}.tar)\""},
      {"train", "tiny.toml", "data.source=\"tfrecord(gs://b/*.tfrecord, image=image)\""},
      {"predict", "--from", "gs://b/run", "image.png"},
      {"predict", "--from", model, "https://b/image.png"},
      {"eval", "tiny.toml", "--from", "s3://b/run"},
      {"export", "--from", model, "--to", "gs://b/out"},
      {"import", "tiny.toml", "--from", "gs://b/model.safetensors", "--to", "out"},
      {"data", "convert", "folder(train)", "--to", "tar", "--out", "gs://b/out"},
      {"data", "check", "folder(gs://b/train)"},
  };
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = run_program(command, folder.path());
    EXPECT_EQ(outcome.exit, 2) << ::testing::PrintToString(command);
    EXPECT_THAT(outcome.err, HasSubstr("is a URL, and files are read and written on local file systems only"))
        << ::testing::PrintToString(command);
    for (const char* name : {"gs:", "s3:", "https:"})
      EXPECT_FALSE(fs::exists(folder / name)) << ::testing::PrintToString(command);
  }
}

TEST(CommandLine, FlagsComeBeforeTheEnvironment) {
  const std::map<std::string, std::string> always = {{"TESSERA_COLOR", "always"}};
  const fs::path here = fs::temp_directory_path();
  EXPECT_THAT(run_program({"trian"}, here, always).err, HasSubstr("\033["));
  EXPECT_THAT(run_program({"--color", "never", "trian"}, here, always).err, Not(HasSubstr("\033[")));
  EXPECT_THAT(run_program({"trian"}).err, Not(HasSubstr("\033[")));
  const Outcome wrong = run_program({"devices"}, here, {{"TESSERA_DEVICES", "two"}});
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_EQ(wrong.err, "error: `--devices` takes a whole number, and is \"two\"\n  --> environment variable TESSERA_DEVICES\n");
}

TEST(Devices, TellsWhatRunsAndWhatIsMissing) {
  const Outcome text = run_program({"devices"});
  EXPECT_EQ(text.exit, 0);
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(text.out, ContainsRegex("^cpu .*C API 0\\.[0-9]+.*1 cpu device.*cores.*GiB +ok\n"));
  EXPECT_THAT(text.out, ContainsRegex("\ncuda "));
  EXPECT_THAT(text.out, ContainsRegex("\ntpu "));
  const Outcome outcome = run_program({"devices", "--json"});
  ASSERT_EQ(outcome.json().size(), 1u);
  const Json cpu = outcome.json()[0]["platforms"][0];
  EXPECT_EQ(cpu["platform"], "cpu");
  EXPECT_TRUE(cpu["ok"]);
  EXPECT_EQ(cpu["devices"].size(), 1u);
  EXPECT_GE(cpu["cores"], 1);
}

TEST(Devices, AMissingPluginIsADeviceErrorThatSaysWhereItLooked) {
  const std::vector<std::string> args = {
      "predict", "--platform", "tpu", "--from", testing::source_path("tests/references/timm_local_dir"), "x.png"};
  const Outcome outcome =
      run_program(args, fs::temp_directory_path(), {{"TESSERA_PLUGIN_PATH", "/nowhere"}, {"VIRTUAL_ENV", "/no_environment"}});
  EXPECT_EQ(outcome.exit, 4);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere"));
  EXPECT_THAT(outcome.err, HasSubstr("pip install libtpu"));
}

}  // namespace
}  // namespace tessera::cli
