// Help, version, flags, and what is said of a mistaken command line: which stream, which words, which exit code.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/command.h"
#include "cli/run_program.h"
#include "pjrt/plugin/accelerators.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
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
  EXPECT_THAT(run_program({"models", "vit_base"}).err, HasSubstr("tessera models 'vit_base.*' lists those that begin so"));
  const auto wrong = run_program({"models", "resnet51"});
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean `resnet50`?"));
}

TEST(Help, AllKeysAreInTheDocument) {
  EXPECT_THAT(testing::slurp(testing::source_path("docs/keys.md")), HasSubstr(run_program({"help", "--markdown"}).out))
      << "put what `tessera help --markdown` prints into docs/keys.md";
}

TEST(Help, NoArgumentsGiveTheShortHelp) {
  const Outcome outcome = run_program({});
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_EQ(outcome.err, "");
  for (const CommandEntry& entry : commands())  // the summaries below each other, also that of the longest name
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format("\n  {:<14}  {}", entry.name, entry.make()->page().summary)));
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
    EXPECT_THAT(outcome.out, ContainsRegex(fmt::format("\n\n  tessera {0}.*\n      [a-z].*\n  tessera {0}.*\n      ", name)));
    EXPECT_THAT(outcome.out, HasSubstr("Usage: tessera " + name));
    EXPECT_THAT(outcome.out, HasSubstr("--platform NAME"));
    EXPECT_THAT(outcome.out, HasSubstr("[TESSERA_PLATFORM]"));
    EXPECT_THAT(outcome.out, Not(ContainsRegex(":\n(\n|$)"))) << "a title above nothing";
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
  EXPECT_THAT(run_program({"help", "model.patch"}).out, HasSubstr("model.patch\n      a whole number: (vit) side of a patch"));
  EXPECT_THAT(run_program({"help", "(top)"}).out, AllOf(HasSubstr("seed = 0"), Not(HasSubstr("optimizer"))));
  EXPECT_THAT(run_program({"help", "eval.val.every"}).out, HasSubstr("eval.NAME.every = \"1 epoch\""));
  EXPECT_THAT(run_program({"help", "sharding"}).out, HasSubstr("sharding.preset = \"fully_sharded\""));
  EXPECT_THAT(run_program({"help", "nonsense"}).err, HasSubstr("tessera help lists the sections"));
  EXPECT_THAT(run_program({"help", "pp"}).out, HasSubstr("resize_small(size"));
  const std::string optimizers = run_program({"help", "optimizers"}).out;
  EXPECT_THAT(optimizers, HasSubstr("as big_vision"));
  EXPECT_THAT(optimizers, HasSubstr("momentum_decay = 0.004"));
  const std::string b1 = run_program({"help", "optimizer.b1"}).out;
  EXPECT_THAT(b1, HasSubstr("optimizer.b1 = 0.9\n      a number: (adamw) decay of the first moment\n"));
  EXPECT_THAT(b1, HasSubstr("optimizer.b1 = 0.95\n      a number: (novograd) "));
  EXPECT_THAT(run_program({"help", "optimizer"}).out, AllOf(HasSubstr("optimizer.lookahead_alpha"), Not(HasSubstr("(adamw)"))));
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

TEST(Help, ExplainsWhateverHasAName) {
  const auto help = [](const std::string& name) { return run_program({"help", name}).out; };
  EXPECT_THAT(help("model"), AllOf(HasSubstr("  vit "), HasSubstr("  resnet "), Not(HasSubstr("model.width"))));
  EXPECT_THAT(help("vit"), AllOf(HasSubstr("model.name = \"vit\""), HasSubstr("model.class_token"), Not(HasSubstr("(vit)"))));
  EXPECT_THAT(help("resnet18"), HasSubstr("model = { name = \"resnet\", variant = \"resnet18\" }"));
  EXPECT_THAT(help("adamw"),
              AllOf(HasSubstr("optimizer.name = \"adamw\": Adam with decoupled"),
                    HasSubstr("optimizer.b1 = 0.9\n      a number: decay of the first moment"), Not(HasSubstr("nadam"))));
  EXPECT_THAT(help("cosine"), AllOf(HasSubstr("cosine(LR, min=0"), Not(HasSubstr("flat_cosine"))));
  EXPECT_THAT(help("flip_lr"), HasSubstr("mirrored left to right"));
  EXPECT_THAT(help("resize_small"), HasSubstr("\n      METHOD is [, interpolation=bilinear]"));
  // Other trainers' words, however they are written.
  EXPECT_EQ(help("AdamW"), help("adamw"));
  EXPECT_THAT(help("LAMB"), HasSubstr("optimizer.name"));
  EXPECT_EQ(help("ResNet50"), help("resnet50"));
  EXPECT_EQ(help("lr"), help("optimizer.lr"));
  EXPECT_EQ(help("epochs"), help("total"));
  EXPECT_EQ(help("batch"), help("data.batch"));
  EXPECT_EQ(help("amp"), help("dtype"));
  EXPECT_THAT(help("mixup"), HasSubstr("data.mixup.mixup"));
  EXPECT_EQ(help("metrics"), help("eval.val.metrics"));
  EXPECT_EQ(help("label_smoothing"), help("objective.label_smoothing"));
  EXPECT_THAT(help("ema"), HasSubstr("average.decay"));
  EXPECT_THAT(help("tfds"), HasSubstr("a data set that TFDS prepared"));
  EXPECT_THAT(help("knn"), AllOf(HasSubstr("eval.NAME.type = \"knn\""), HasSubstr("eval.NAME.k = ")));
  EXPECT_EQ(help("cross_entropy"), help("softmax"));
  EXPECT_EQ(help("scale_by_adafactor"), help("adafactor_bv"));
  EXPECT_EQ(help("fit_one_cycle"), help("one_cycle"));
  EXPECT_EQ(help("bs"), help("data.batch"));
  EXPECT_EQ(help("momentum"), help("optimizer.momentum"));
  EXPECT_EQ(help("lr_find"), help("lr-find"));
  EXPECT_THAT(help("top1"), HasSubstr("checkpoint.best=val/prec@1"));
  EXPECT_THAT(help("cohen_kappa"), HasSubstr("tessera help eval.val.metrics"));
  EXPECT_THAT(help("early-stopping"), HasSubstr("patience=5 epochs"));
  EXPECT_THAT(help("exit codes"), HasSubstr("75 and 130 stopped after saving"));
  EXPECT_THAT(help("validation"), HasSubstr("tessera help eval"));
  // Words that a key's help has.
  EXPECT_THAT(run_program({"help", "f1_weighted"}).err,
              HasSubstr("`f1_weighted` is in the help of eval.NAME.metrics: tessera help eval.NAME.metrics"));
  EXPECT_THAT(help("jsd"), HasSubstr("objective.name = \"jsd\""));
  EXPECT_THAT(run_program({"help", "cosin"}).err, HasSubstr("did you mean `cosine`?"));
  EXPECT_THAT(run_program({"help", "adamww"}).err, HasSubstr("did you mean `adamw`?"));
}

TEST(Help, IsAManPageToo) {
  const std::string page = run_program({"help", "--man"}).out;
  EXPECT_THAT(page, StartsWith(".TH TESSERA 1 "));
  for (const CommandEntry& entry : commands()) {
    std::string name(entry.name);
    if (const size_t dash = name.find('-'); dash != std::string::npos) name.insert(dash, "\\");
    EXPECT_THAT(page, HasSubstr("\n.SS " + name + "\n"));
  }
  EXPECT_THAT(page, HasSubstr(".B optimizer.weight_decay = 0.0\n"));
  EXPECT_THAT(page, HasSubstr(".B \\-\\-workdir DIR\n"));
  // A line that begins with a dot is a request, and there are no others than these.
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(".") && !line.starts_with("'")) continue;
    const std::string request = line.substr(0, line.find(' '));
    EXPECT_TRUE(request == ".TH" || request == ".SH" || request == ".SS" || request == ".TP" || request == ".B" ||
                request == ".PP")
        << line;
  }
}

TEST(Version, HasThreeSpellings) {
  const Outcome version = run_program({"--version"});
  for (const char* word : {"-V", "version"}) {
    const Outcome same = run_program({word});
    EXPECT_EQ(same.exit, 0) << word;
    EXPECT_EQ(same.out, version.out) << word;
  }
  EXPECT_EQ(run_program({"version", "--json"}).out, run_program({"--version", "--json"}).out);
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
      {{"validate", "a.toml"}, "error: unknown command `validate`\nhelp: did you mean `eval`?\n"},
      {{"fit"}, "error: unknown command `fit`\nhelp: did you mean `train`?\n"},
      {{"infer"}, "error: unknown command `infer`\nhelp: did you mean `predict`?\n"},
      {{"dashboard", "runs"}, "error: unknown command `dashboard`\nhelp: did you mean `board`?\n"},
      {{"convert", "photos"}, "error: unknown command `convert`\nhelp: did you mean `data convert`?\n"},
      {{"plot", "runs/a"}, "error: unknown command `plot`\nhelp: did you mean `report`?\n"},
      {{"board", "--port", "1"},
       "error: unknown flag `--port`\nhelp: the live page is at --address 6070, or 127.0.0.1:6070, of tessera board\n"},
      {{"lr-find", "a.toml", "--min", "1"},
       "error: unknown flag `--min`\nhelp: tessera lr-find goes from the rate --from to the rate --to in --steps N\n"},
      {{"lr-find", "a.toml", "--num_it=9"},
       "error: unknown flag `--num_it`\nhelp: tessera lr-find goes from the rate --from to the rate --to in --steps N\n"},
      {{"predict", "-k", "1"}, "error: unknown flag `-k`\nhelp: how many classes an image gets: --top 1\n"},
      {{"data", "show", "a.toml", "--n", "4"},
       "error: unknown flag `--n`\nhelp: how many images the picture has: --count 16\n"},
      {{"sweep", "a.toml", "--seeds", "3"},
       "error: unknown flag `--seeds`\nhelp: several seeds are several runs: tessera sweep RECIPE seed=0..4\n"},
      {{"train", "--wokdir", "x"}, "error: unknown flag `--wokdir`\nhelp: did you mean `--workdir`?\n"},
      {{"train"}, "error: tessera train needs a recipe\nhelp: tessera train recipes/digits.toml\n"},
      {{"train", "a.toml", "b.toml"},
       "error: `b.toml` is one word too many: the recipe is `a.toml` already\nhelp: settings are written key=value; tessera "
       "train --help\n"},
      {{"train", "a.toml", "--board", "6090"}, "error: `--board` takes its value with an equals sign\nhelp: --board=6090\n"},
      {{"train", "--board", "0.0.0.0:0", "a.toml"},
       "error: `--board` takes its value with an equals sign\nhelp: --board=0.0.0.0:0\n"},
      {{"predict", "--from"}, "error: `--from` needs a value\nhelp: --from PATH\n"},
      {{"predict", "x.png"}, "error: `--from` is missing\nhelp: tessera predict --from runs/digits image.png\n"},
      {{"predict", "--top", "none"}, "error: `--top` takes a whole number, and is \"none\"\n"},
      {{"predict", "--top=0"}, "error: `--top` must be at least 1, and is 0\n"},
      {{"devices", "--devices", "1000000000"},
       "error: `--devices` must be at most 1024, and is 1000000000\nhelp: write a number from 1 to 1024\n"},
      {{"data", "bench", "--threads=1025"},
       "error: `--threads` must be at most 1024, and is 1025\nhelp: write a number from 0 to 1024\n"},
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

// People bring the words of other trainers.
class OtherTrainersWords : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 6);
    write_images(folder_ / "val", 5);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  // What is said of `tessera train tiny.toml WORDS`.
  std::string help(const std::vector<std::string>& words) const {
    std::vector<std::string> args{"train", "tiny.toml"};
    args.insert(args.end(), words.begin(), words.end());
    const Outcome outcome = run_program(args, folder_.path());
    EXPECT_EQ(outcome.exit, 2) << outcome.err;
    return outcome.err;
  }

  TempFolder folder_;
};

TEST_F(OtherTrainersWords, AreUnderstoodAsFlags) {
  EXPECT_THAT(help({"--epochs", "5"}), HasSubstr("written 'total=90 epochs'"));
  EXPECT_THAT(help({"--lr", "1e-3"}), AllOf(HasSubstr("written lr=3e-4"), HasSubstr("optimizer.lr=cosine(3e-4")));
  EXPECT_THAT(help({"--batch-size", "4"}), HasSubstr("written data.batch=VALUE"));
  EXPECT_THAT(help({"--weight-decay=0.1"}), HasSubstr("written optimizer.weight_decay=VALUE"));
  EXPECT_THAT(help({"--resume", "runs/a"}), HasSubstr("goes on by itself"));
  EXPECT_THAT(help({"--output-dir", "x"}), HasSubstr("--workdir DIR"));
  EXPECT_THAT(help({"--gpus", "2"}), HasSubstr("--platform cuda"));
  EXPECT_THAT(help({"--sched", "cosine"}), HasSubstr("optimizer.lr=cosine(1e-3"));
  EXPECT_THAT(help({"-b", "4"}), HasSubstr("data.batch=VALUE"));
  EXPECT_THAT(help({"--min", "1e-6"}), Not(HasSubstr("lr-find"))) << "of that command alone";
  EXPECT_THAT(help({"--port", "6070"}), Not(HasSubstr("tessera board")));
  EXPECT_THAT(help({"-j", "4"}), HasSubstr("data.threads=VALUE"));
  EXPECT_THAT(help({"--optimizer", "adam"}), HasSubstr("optimizer.name=adamw"));
  EXPECT_THAT(help({"--fp16"}), HasSubstr("dtype=bf16"));
  EXPECT_THAT(help({"--mixed-precision", "bf16"}), HasSubstr("dtype=bf16"));
  EXPECT_THAT(help({"--log-interval", "50"}), HasSubstr("written 'log=50 steps'"));
  EXPECT_THAT(help({"--tensorboard"}), HasSubstr("tensorboard --logdir runs"));
  EXPECT_THAT(help({"--dashboard"}), HasSubstr("tessera board runs"));
  EXPECT_THAT(help({"--model", "resnet18"}), HasSubstr("model.variant=resnet18"));
  EXPECT_THAT(help({"--data", "photos"}), HasSubstr("'data.source=folder(DIR/train)'"));
  EXPECT_THAT(help({"--ckpt_path", "a"}), HasSubstr("goes on by itself"));
  EXPECT_THAT(help({"--optimizer.lr=3"}), HasSubstr("have no dashes: optimizer.lr=VALUE"));
  EXPECT_THAT(help({"--config.seed=3"}), HasSubstr("have no dashes: seed=VALUE"));
  EXPECT_THAT(help({"--set", "optimizer.lr=3"}), HasSubstr("without dashes: optimizer.lr=3e-4"));
  EXPECT_THAT(help({"--dry-run"}), HasSubstr("tessera plan RECIPE"));
  EXPECT_THAT(help({"--epoch-repeats", "3"}), HasSubstr("data.aug_repeats=3"));
  EXPECT_THAT(help({"--seeds", "3"}), HasSubstr("tessera sweep RECIPE seed=0..4"));
  EXPECT_THAT(help({"--patience", "3"}), HasSubstr("early_stop=val/loss, patience=5 epochs"));
}

TEST_F(OtherTrainersWords, AreUnderstoodAsKeys) {
  EXPECT_THAT(help({"print_freq=50"}), HasSubstr("did you mean `log`, as log = \"50 steps\"?"));
  EXPECT_THAT(help({"monitor.tensorboard=true"}), HasSubstr("tensorboard --logdir runs"));
  EXPECT_THAT(help({"mlflow=true"}), HasSubstr("MLFLOW_TRACKING_URI"));
  EXPECT_THAT(help({"board=true"}), HasSubstr("--board"));
  EXPECT_THAT(help({"profiler=true"}), HasSubstr("monitor.profile=steps 2-6"));
  EXPECT_THAT(help({"ema=0.99"}), HasSubstr("average.decay=0.9998"));
  EXPECT_THAT(help({"pretrained=true"}), HasSubstr("model_init.from=hub("));
  EXPECT_THAT(help({"scheduler=cosine"}), HasSubstr("optimizer.lr=cosine(1e-3"));
  EXPECT_THAT(help({"warmup=5"}), HasSubstr("optimizer.lr=cosine(1e-3"));
  EXPECT_THAT(help({"device=cuda"}), HasSubstr("--platform cuda"));
  EXPECT_THAT(help({"output=runs/x"}), HasSubstr("--workdir DIR"));
  EXPECT_THAT(help({"trainer.max_epochs=3"}), HasSubstr("did you mean `total`, as total = \"90 epochs\"?"));
  EXPECT_THAT(help({"logger=wandb"}), AllOf(HasSubstr("'monitor.sinks="), Not(HasSubstr("did you mean `log`"))));
  EXPECT_THAT(help({"callbacks=stop"}), HasSubstr("early_stop, checkpoint.best"));
  EXPECT_THAT(help({"strategy=ddp"}), HasSubstr("tessera launch"));
  EXPECT_THAT(help({"compile=true"}), HasSubstr("XLA compiles every program"));
  EXPECT_THAT(help({"momentum=0.9"}), HasSubstr("optimizer.momentum=0.9"));
  EXPECT_THAT(help({"gradient_clip_val=1"}), HasSubstr("did you mean `optimizer.clip`, as clip = \"norm(1.0)\"?"));
  EXPECT_THAT(help({"batch=4"}), HasSubstr("did you mean `data.batch`?"));
  EXPECT_THAT(help({"bs=4"}), HasSubstr("did you mean `data.batch`?"));
  EXPECT_THAT(help({"schedule=cosine"}), HasSubstr("part of the learning rate"));
  EXPECT_THAT(help({"epoch_repeats=3"}), AllOf(HasSubstr("data.aug_repeats=3"), HasSubstr("'total=90 epochs'")));
  EXPECT_THAT(help({"data.epoch_repeats=3"}), HasSubstr("data.aug_repeats=3"));
  EXPECT_THAT(help({"model.drop_block=0.1"}), HasSubstr("a key of ResNets (model.name=resnet)"));
  EXPECT_THAT(help({"epochs=3"}), HasSubstr("did you mean `total`, as total = \"90 epochs\"?"));
  EXPECT_THAT(help({"amp=true"}), HasSubstr("did you mean `dtype`, as dtype = \"bf16\"?"));
}

TEST_F(OtherTrainersWords, AreUnderstoodAsValues) {
  EXPECT_THAT(help({"data.val_split=0.2"}), HasSubstr("part(folder(photos), train, 20 %)"));
  EXPECT_THAT(help({"data.balance=true"}), HasSubstr("data.shuffle=balanced"));
  EXPECT_THAT(help({"data=photos/train"}), AllOf(HasSubstr("`data` must be a table, found the text \"photos/train\""),
                                                 HasSubstr("'data.source=folder(DIR/train)'")));
  EXPECT_THAT(help({"data.source=train"}), HasSubstr("write folder(train)"));
  EXPECT_THAT(help({"data.source=photos/train"}), HasSubstr("write folder(photos/train)"));
  EXPECT_THAT(help({"data.source=labels.csv"}), HasSubstr("write csv(labels.csv, image="));
  EXPECT_THAT(help({"data.source=fold(folder(train), 0/5)"}), HasSubstr("part(folder(photos), train, 20 %)"));
  EXPECT_THAT(help({"data.source=folder(train, fold=0/5)"}), HasSubstr("part(folder(photos), train, 20 %)"));
  EXPECT_THAT(help({"data.source=folder(train, balance=true)"}), HasSubstr("data.shuffle=balanced"));
  EXPECT_THAT(help({"eval.val.metrics=f1_macro"}), HasSubstr("write [\"f1_macro\"]"));
  EXPECT_THAT(help({"monitor.sinks=none"}), HasSubstr("write []; where measurements go"));
  EXPECT_THAT(help({"checkpoint.best=val/top1"}), HasSubstr("did you mean `val/prec@1`?"));
  EXPECT_THAT(help({"checkpoint.best=accuracy"}), HasSubstr("did you mean `val/prec@1`?"));
  EXPECT_THAT(help({"early_stop=\"val/acc, patience=5\""}), HasSubstr("did you mean `val/prec@1`?"));
  EXPECT_THAT(help({"optimizer.clip=1"}), HasSubstr("norm(1) limits the norm of all gradients"));
  EXPECT_THAT(help({"data.split=0.2"}), HasSubstr("part(folder(photos), train, 20 %)"));
  EXPECT_THAT(help({"data.augment=true"}), HasSubstr("part of data.pp"));
  EXPECT_THAT(help({"objective=cross_entropy"}), HasSubstr("did you mean `softmax`?"));
  EXPECT_THAT(help({"objective=CrossEntropyLoss"}), HasSubstr("did you mean `softmax`?"));
  EXPECT_THAT(help({"objective.name=ce"}), HasSubstr("did you mean `softmax`?"));
  EXPECT_THAT(help({"dtype=fp16"}), HasSubstr("did you mean `bf16`?"));
  EXPECT_THAT(help({"dtype=float32"}), HasSubstr("did you mean `f32`?"));
  EXPECT_THAT(help({"dtype=int8"}), HasSubstr("known: f32, bf16"));
  EXPECT_THAT(help({"optimizer=sgdd"}), AllOf(HasSubstr("which is no optimizer"), HasSubstr("did you mean `sgd`?")));
  EXPECT_THAT(help({"optimizer=sgd"}),
              HasSubstr("takes the place of all of `optimizer`; optimizer.name=\"sgd\" changes that key"));
  EXPECT_THAT(help({"optimizer.name=scale_by_adafactor"}), HasSubstr("did you mean `adafactor_bv`?"));
  EXPECT_THAT(help({"eval.val.type=fewshot_lsr"}), HasSubstr("did you mean `few_shot`?"));
  EXPECT_THAT(help({"model=resnet18"}), HasSubstr("model = { name = \"resnet\", variant = \"resnet18\" }"));
  EXPECT_THAT(help({"model.name=resnet50.a1_in1k"}), HasSubstr("variant = \"resnet50\""));
  EXPECT_THAT(help({"model=resnet18"}), HasSubstr("model.name=resnet model.variant=resnet18"));
  EXPECT_THAT(help({"model_init.from=vit.pth"}), HasSubstr(".pth"));
  EXPECT_THAT(help({"model_init.from=hf-hub:timm/vit_tiny"}), HasSubstr("hub(timm/vit_tiny)"));
}

TEST(CommandLine, QuietShowsResultsAndWarningsAlone) {
  const TempFolder folder;
  write_images(folder / "train", 6);
  write_images(folder / "val", 5);
  write_file(folder / "tiny.toml", tiny_recipe());
  const Outcome loud = run_program({"train", "tiny.toml", "--workdir", "loud", "total=1 epoch"}, folder.path());
  EXPECT_THAT(loud.err, AllOf(HasSubstr("ViT 16 x 2"), HasSubstr("3 steps (1 epoch)")));
  const Outcome quiet = run_program({"train", "tiny.toml", "--workdir", "quiet", "--quiet"}, folder.path());
  EXPECT_EQ(quiet.exit, 0);
  EXPECT_EQ(quiet.err, "");
  EXPECT_THAT(quiet.out, HasSubstr("checkpoint  quiet/checkpoints/step_000000006"));
  EXPECT_THAT(read_file(folder / "quiet/log.txt"), HasSubstr("ViT 16 x 2"));
  const Outcome wrong = run_program({"train", "tiny.toml", "--quiet", "totl=3"}, folder.path());
  EXPECT_THAT(wrong.err, HasSubstr("error: unknown key `totl`"));
}

// A URL is never a local path: nothing is made under its name. What takes URLs is in buckets_test.cc.
TEST(CommandLine, UrlsAreRefused) {
  const TempFolder folder;
  write_image(folder / "image.png", 0, 0);
  write_images(folder / "train", 6);
  write_images(folder / "val", 5);
  write_file(folder / "tiny.toml", tiny_recipe());
  const std::string model = testing::source_path("tests/references/timm_local_dir");
  const std::pair<std::vector<std::string>, const char*> commands[] = {
      {{"train", "tiny.toml", "--workdir", "https://b/run"}, "a path of this machine is needed"},
      {{"train", "tiny.toml", "--workdir", "hf://datasets/b/run"}, "a path of this machine is needed"},
      {{"train", "tiny.toml", "data.source=\"folder(ftp://b/train)\""}, "a path of this machine is needed"},
      {{"train", "tiny.toml", "data.source=\"wds(ftp://b/train-{000..009}.tar)\""}, "no address that data can be read from"},
      {{"train", "tiny.toml", "--workdir=~/run"}, "begins with ~"},
      {{"train", "tiny.toml", "--cache-dir=~/cache"}, "begins with ~"},
      {{"train", "tiny.toml", "data.source=folder(~/photos)"}, "begins with ~"},
      {{"data", "check", "~/photos"}, "begins with ~"},
      {{"data", "convert", "folder(train)", "--to", "tar", "--out=~/out"}, "begins with ~"},
      {{"export", "--from", model, "--to=~/out"}, "begins with ~"},
      {{"predict", "--from=~/run", "image.png"}, "begins with ~"},
      {{"predict", "--from", "ftp://b/run", "image.png"}, "a path of this machine is needed"},
      {{"predict", "--from", model, "ftp://b/image.png"}, "a path of this machine is needed"},
      {{"export", "--from", model, "--to", "https://b/out"}, "can be read, and not written"},
      {{"export", "--from", model, "--to", "ftp://b/out"}, "a path of this machine is needed"},
      {{"import", "tiny.toml", "--from", model, "--to", "https://b/out"}, "can be read, and not written"},
      {{"data", "convert", "folder(train)", "--to", "tar", "--out", "hf://datasets/b/out"}, "can be read, and not written"},
      {{"sweep", "tiny.toml", "lr=1,2", "--workdir", "gs://b/out"}, "a path of this machine is needed"},
  };
  for (const auto& [command, message] : commands) {
    const Outcome outcome = run_program(command, folder.path());
    EXPECT_EQ(outcome.exit, 2) << ::testing::PrintToString(command);
    EXPECT_THAT(outcome.err, HasSubstr(message)) << ::testing::PrintToString(command);
    for (const char* name : {"gs:", "s3:", "az:", "hf:", "https:", "ftp:", "~"})
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

TEST(Devices, TheChoiceOfAPlatformIsSaidWhereNobodyNamedOne) {
  const std::string model = testing::source_path("tests/references/timm_local_dir");
  const auto said = [&](const std::string& platform, const std::vector<std::string>& more) {
    std::vector<std::string> words{"predict", "--from", model, model + "/image.png"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_program(words, fs::temp_directory_path(), {{"TESSERA_PLATFORM", platform}});
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.err;
  };
  const bool accelerated = pjrt::tpu_chips() + pjrt::nvidia_gpus() > 0;
  if (!accelerated) {
    EXPECT_THAT(said("auto", {}), HasSubstr("platform cpu: this machine has no TPU or GPU\n"));
    EXPECT_EQ(said("auto", {"--quiet"}), "");
  }
  EXPECT_THAT(said("cpu", {}), Not(HasSubstr("platform cpu")));
}

TEST(Devices, AMissingPluginIsADeviceErrorThatSaysWhereItLooked) {
  // A program in a checkout finds the plugin of .deps/plan.
  const TempFolder folder;
  fs::copy_file(testing::program_path(), folder / "tessera");
  const std::string command = fmt::format(
      "TESSERA_PLUGIN_PATH=/nowhere VIRTUAL_ENV=/no_environment {} predict --platform tpu --from {} x.png 2> {}",
      (folder / "tessera").string(), testing::source_path("tests/references/timm_local_dir"), (folder / "err").string());
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 4);
  EXPECT_THAT(read_file(folder / "err"), AllOf(HasSubstr("/nowhere"), HasSubstr("pip install libtpu")));
}

}  // namespace
}  // namespace tessera::cli
