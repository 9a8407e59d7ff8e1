// timm's arguments: that none is forgotten, that schedules and batches are timm's own, and that what is made is a recipe.
#include "recipe/translate/timm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/system/temporary_directory.h"
#include "base/text/text.h"
#include "optim/schedule/schedule.h"
#include "recipe/recipe.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::translate {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const nlohmann::json& timms() {
  static const nlohmann::json json =
      nlohmann::json::parse(testing::slurp(testing::source_path("tests/references/timm_commands.json")));
  return json;
}

// Name and words of each line of timm_commands.txt, which have no quotes for a shell.
std::vector<std::pair<std::string, std::vector<std::string>>> commands() {
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  for (const std::string& line : split(testing::slurp(testing::source_path("tests/references/timm_commands.txt")), '\n')) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> words = split(line, ' ');
    const std::string name = words[0];
    words.erase(words.begin());
    out.emplace_back(name, words);
  }
  return out;
}

Translation made(const std::string& line, const TimmOptions& options = {}) { return translate_timm(split(line, ' '), options); }

std::string error_of(const std::string& line, const TimmOptions& options = {}, Exit code = Exit::kUsage) {
  try {
    made(line, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << line;
    return error.what();
  }
  return "no error";
}

// With images made up, so that no data set has to be there.
recipe::Recipe as_recipe(const Translation& translation, std::vector<std::string> settings = {}) {
  std::string text = translation.recipe;
  const size_t init = text.find("\n[model_init]");  // its weights are not here
  if (init != std::string::npos) text.erase(init, text.find("\n[", init + 1) - init);
  std::string classes = "1000";
  for (const char* few : {"102", "37"}) {
    if (text.find(fmt::format("\nclasses = {}\n", few)) != std::string::npos) classes = few;
  }
  settings.push_back(fmt::format("data.source=fake(images=1281167, classes={})", classes));
  if (text.find("[eval.val]") != std::string::npos) {
    settings.push_back(fmt::format("eval.val.data.source=fake(images=50000, classes={})", classes));
  }
  return recipe::read_recipe(config::parse_recipe(text, "made", settings));
}

const Argument* find(const std::string& name) {
  for (const Argument& argument : timm_arguments()) {
    if (long_name(argument) == name) return &argument;
  }
  return nullptr;
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

// 0.0001 and 1e-4 alike.
std::string normal(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& word : split(text, ' ')) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    words.push_back(!word.empty() && *end == 0 ? number_text(value) : word);
  }
  return join(words, " ");
}

TEST(TimmArguments, AreAllThereWithTimmsDefaults) {
  for (const auto& [name, fallback] : timms()["main"].items()) {
    const Argument* argument = find(with_dashes(name));
    ASSERT_NE(argument, nullptr) << name;
    const std::string own = name == "--input-img-mode" || name == "--in-chans" ? "" : argument->fallback;  // None means these
    EXPECT_EQ(normal(own), normal(fallback.get<std::string>())) << name;
  }
}

TEST(TimmArguments, AreThoseOfBitsToo) {
  for (const auto& [name, fallback] : timms()["bits"].items()) {
    const Argument* argument = find(with_dashes(name));
    ASSERT_NE(argument, nullptr) << name;
    std::string own = argument->fallback;
    for (const OtherDefault& other : bits_defaults()) {
      if (with_dashes(std::string("--") + other.name) == long_name(*argument)) own = other.value;
    }
    if (name == "--color-jitter") own = own == "0" ? "" : own;  // None is none
    EXPECT_EQ(normal(own), normal(fallback.get<std::string>())) << name;
  }
}

// What neither has is of timm's older versions.
TEST(TimmArguments, AreNoOthersThanTimms) {
  std::vector<std::string> others;
  for (const Argument& argument : timm_arguments()) {
    const std::string name = long_name(argument);
    const bool local = name == "--local-rank";
    if (!timms()["main"].contains(name) && !timms()["bits"].contains(name) && !local) others.push_back(name);
  }
  EXPECT_THAT(others, ElementsAre("data", "--validation-batch-size-multiplier", "--aot-autograd", "--native-amp", "--apex-amp",
                                  "--amp-impl", "--num-gpu", "--bn-tf"));
}

TEST(TimmArguments, AreListedInTheDocument) {
  EXPECT_THAT(testing::slurp(testing::source_path("docs/from/timm.md")), HasSubstr(timm_lists()))
      << "put what `tessera timm --list` prints into docs/from/timm.md";
}

TEST(TimmCommands, HaveTimmsRatesBatchesAndEpochs) {
  ASSERT_GT(commands().size(), 12u);
  for (const auto& [name, words] : commands()) {
    const auto& timm = timms()["commands"].at(name);
    config::Section recipe = config::parse_recipe(translate_timm(words, {}).recipe);
    int64_t batch = 0;
    recipe.section("data").bind_field("batch", config::Field(&batch), "");
    EXPECT_EQ(batch, timm["batch"].get<int64_t>()) << name;
    const int64_t epochs = timm["epochs"];
    EXPECT_EQ(recipe.text("total"), fmt::format("{} epochs", epochs)) << name;
    const int64_t steps = 100;  // of an epoch
    const std::string text = recipe.section("optimizer").text("lr");
    const auto schedule = optim::Schedule::parse(text, {epochs * steps, batch, batch * steps}, "here");
    for (const auto& pair : timm["rates"]) {
      const int64_t epoch = pair[0];
      const double rate = pair[1];
      EXPECT_NEAR(schedule.at(epoch * steps), rate, 1e-6 * rate + 1e-12) << name << " epoch " << epoch << ": " << text;
      if (text.find("hold=") == std::string::npos) continue;
      EXPECT_NEAR(schedule.at(epoch * steps + 57), rate, 1e-6 * rate + 1e-12) << name << " within epoch " << epoch;
    }
  }
}

// It would be taken for a rate that was not given.
TEST(TimmCommands, ANegativeRateIsRefused) {
  EXPECT_THAT(error_of("/imagenet --lr -1"), HasSubstr("`--lr` must be above 0, and is -1"));
}

// timm 1.0: create_scheduler_v2(optimizer of lr 0.05, num_epochs=3, warmup_epochs=5, warmup_lr=1e-5).
TEST(TimmCommands, MayEndWithinTheirWarmUp) {
  for (const char* sched : {"cosine", "step"}) {
    const std::string command = std::string("/imagenet --lr 0.05 --epochs 3 --sched ") + sched;
    config::Section recipe = config::parse_recipe(made(command).recipe);
    const std::string text = recipe.section("optimizer").text("lr");
    const auto schedule = optim::Schedule::parse(text, {300, 128, 12800}, "here");
    for (const auto& [step, rate] : {std::pair{0, 1e-5}, {157, 0.010008}, {299, 0.020006}})
      EXPECT_NEAR(schedule.at(step), rate, 1e-6 * rate) << text;
    EXPECT_THAT(join(made(command).notes, "\n"),
                HasSubstr("within its warm-up of 5 epochs, and does not reach its rate of 0.05"));
  }
  EXPECT_THAT(join(made("/imagenet --lr 0.05 --epochs 5").notes, "\n"), Not(HasSubstr("warm-up")));
  config::Section constant = config::parse_recipe(made("/imagenet --lr 0.05 --epochs 3 --sched none").recipe);
  EXPECT_EQ(constant.section("optimizer").text("lr"), "0.05") << "it has no warm-up";
}

TEST(TimmCommands, AreRecipes) {
  for (const auto& [name, words] : commands()) {
    try {
      const recipe::Recipe recipe = as_recipe(translate_timm(words, {}));
      EXPECT_EQ(recipe.batch, timms()["commands"].at(name)["batch"].get<int64_t>()) << name;
      EXPECT_EQ(recipe.evals.size(), 1u) << name;
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

TEST(TimmCommands, BecomeTheseRecipes) {
  for (const auto& [name, words] : commands()) {
    const std::string path = "tests/references/timm_recipes/" + name + ".toml";
    if (!std::filesystem::exists(testing::source_path(path))) continue;
    EXPECT_EQ(translate_timm(words, {}).recipe, testing::slurp(testing::source_path(path))) << name;
  }
  EXPECT_TRUE(std::filesystem::exists(testing::source_path("tests/references/timm_recipes/rsb_a1.toml")));
}

TEST(TimmCommands, EveryOptimizerIsThere) {
  for (const TimmOptimizer& optimizer : timm_optimizers()) {
    const std::string more =
        std::string(optimizer.betas ? " --opt-betas 0.8 0.95" : "") + (optimizer.eps ? " --opt-eps 1e-7" : "");
    const Translation translation =
        made(fmt::format("/imagenet --model vit_tiny_patch16_224 --opt {}{}", optimizer.timm, more));
    try {
      as_recipe(translation, {"model.depth=1"});
    } catch (const Error& error) {
      ADD_FAILURE() << optimizer.timm << ": " << error.what();
    }
    EXPECT_EQ(translation.recipe.find("\nb2 = 0.95") != std::string::npos, optimizer.betas) << optimizer.timm;
    EXPECT_EQ(translation.recipe.find("\nmomentum = ") != std::string::npos, optimizer.momentum) << optimizer.timm;
  }
}

// Of timm 1.0.31.
TEST(TimmCommands, OptimizersThatAreNotHereNameTheNearest) {
  for (const char* name :
       {"adahessian",  "adamuon",     "adan",          "adanw",       "adopt",           "adoptc",  "adoptw",      "bnbadam",
        "bnbadam8bit", "bnbadamw",    "bnbadamw8bit",  "bnbademamix", "bnbademamix8bit", "bnblion", "bnblion8bit", "bnbsgd",
        "bnbsgd8bit",  "cadamp",      "cadan",         "cadanw",      "cadopt",          "cadoptc", "cadoptw",     "claprop",
        "cmars",       "csgdp",       "fusednovograd", "kron",        "kronc",           "kronw",   "laprop",      "lapropc",
        "mars",        "nadamlegacy", "nadamuon",      "radamlegacy"}) {
    EXPECT_THAT(error_of(fmt::format("/imagenet --opt {}", name)),
                AllOf(HasSubstr(fmt::format("timm's optimizer `{}` is not here", name)), HasSubstr("near it: ")));
  }
  EXPECT_THAT(error_of("/imagenet --opt lookahead_adan"), HasSubstr("near it: nadamw, cnadamw, adamw; tessera timm --list"));
}

TEST(TimmCommands, FirstMomentsOfAdafactorsAreTheirB1) {
  EXPECT_THAT(made("/imagenet --opt adafactorbv --momentum 0.8").recipe, HasSubstr("\nb1 = 0.8\n"));
  EXPECT_THAT(made("/imagenet --opt adafactorbv").recipe, Not(HasSubstr("\nb1 = ")));
  EXPECT_THAT(made("/imagenet --opt adafactor --opt-betas 0.8 0.99").recipe, HasSubstr("\nb1 = 0.8\n"));
  EXPECT_THAT(made("/imagenet --opt cadafactor").recipe, HasSubstr("\nb1 = 0.9\n"));
  const std::string cautious = made("/imagenet --opt cadafactor --opt-betas 0.8 0.99").recipe;
  EXPECT_THAT(cautious, AllOf(HasSubstr("\nb1 = 0.8\n"), Not(HasSubstr("b1 = 0.9"))));
}

TEST(TimmCommands, SayWhatTheyDoDifferently) {
  const Translation translation = made("./distributed_train.sh 8 /imagenet --amp -j 8 --pin-mem --lr-base 0.5 --aug-repeats 3");
  EXPECT_THAT(
      join(translation.notes, "\n"),
      AllOf(HasSubstr("batch 1,024 = 128 a device x 8 devices (the launcher's)"), HasSubstr("lr 2 = lr-base 0.5 x 1024 / 256"),
            HasSubstr("approximated: --amp: `dtype = \"bf16\"`"), HasSubstr("approximated: --aug-repeats: "),
            HasSubstr("ignored: --workers, --pin-mem"), HasSubstr("batch norm sees the images of all devices")));
  EXPECT_THAT(translation.recipe, HasSubstr("\naug_repeats = 3\n"));
  EXPECT_THAT(join(made("/imagenet -b 64 --opt adamw --lr-base 1e-3 --grad-accum-steps 4", {.world_size = 4}).notes, "\n"),
              AllOf(HasSubstr("batch 1,024 = 64 a device x 4 devices x 4 accumulated (--world-size)"),
                    HasSubstr("lr 0.002 = lr-base 0.001 x sqrt(1024 / 256)")));
  // An argument that has its default says nothing.
  EXPECT_THAT(join(made("/imagenet -j 4 --dist-bn reduce --lr 0.1").notes, "\n"), Not(HasSubstr("ignored")));
}

TEST(TimmCommands, NormsAndDropBlockOfResNets) {
  const Translation translation = made("/imagenet --model resnet18 --drop-block 0.1 --bn-momentum 0.05 --bn-eps 1e-3");
  EXPECT_THAT(translation.recipe,
              AllOf(HasSubstr("drop_block = 0.1\n"), HasSubstr("norm_momentum = 0.05\n"), HasSubstr("norm_epsilon = 0.001\n")));
  as_recipe(translation, {});
}

TEST(TimmCommands, SplitsBatchNormsAsTheViews) {
  const std::string jsd = "/imagenet --model resnet18 --aug-splits 3 --jsd-loss --aa augmix-m3-w3";
  const Translation translation = made(jsd + " --split-bn");
  EXPECT_THAT(translation.recipe, HasSubstr("norm_splits = 3\n"));
  EXPECT_THAT(join(translation.notes, "\n"), Not(HasSubstr("split-bn")));
  EXPECT_EQ(as_recipe(translation, {}).model->batch_parts(), 3);
  EXPECT_THAT(made("/imagenet --model vit_small_patch16_224 --aug-splits 3 --jsd-loss --split-bn").recipe,
              Not(HasSubstr("norm_splits")));
  EXPECT_THAT(error_of("/imagenet --model resnet18 --split-bn"), HasSubstr("goes with `--aug-splits`"));
}

TEST(TimmCommands, OneChannel) {
  const Translation translation = made("/imagenet --model resnet18 --in-chans 1 --mean 0.449 --std 0.226");
  EXPECT_THAT(translation.recipe, HasSubstr(" | grayscale | normalise(mean=0.449, std=0.226)"));
  EXPECT_THAT(join(translation.notes, "\n"), HasSubstr("approximated: --in-chans"));
  EXPECT_EQ(as_recipe(translation, {}).model->input().channels, 1);
  EXPECT_THAT(error_of("/imagenet --in-chans 1"), HasSubstr("must be one number each"));
  EXPECT_THAT(error_of("/imagenet --in-chans 4"), HasSubstr("--in-chans 4"));
}

TEST(TimmCommands, ArgumentsOfTheModelAreKeys) {
  const std::string clip = "/imagenet --model vit_base_patch16_clip_224 --img-size 240 --model-kwargs img_size=240";
  const Translation patches = made(clip + " patch_size=12");
  EXPECT_THAT(patches.recipe, HasSubstr("variant = \"vit_base_patch16_clip_224\"\npatch = 12\n"));
  EXPECT_EQ(as_recipe(patches, {"model.depth=1"}).model->input().height, 240);
  EXPECT_THAT(made(clip + " pre_norm=False qkv_bias=true init_values=1e-5").recipe,
              AllOf(HasSubstr("\npre_norm = false\n"), HasSubstr("\nlayer_scale = 1e-05\n"), Not(HasSubstr("qkv_bias"))));
  EXPECT_EQ(made(clip).recipe, made("/imagenet --model vit_base_patch16_clip_224 --img-size 240").recipe);
  EXPECT_THAT(error_of(clip + " img_size=224"), HasSubstr("`img_size=224`, where images have 240 pixels"));
  EXPECT_THAT(error_of(clip + " attn_drop_rate=0.1"), AllOf(HasSubstr("attn_drop_rate"), HasSubstr("model.KEY=VALUE")));
  EXPECT_THAT(error_of(clip + " patch_size"), HasSubstr("no NAME=VALUE"));
  EXPECT_THAT(error_of(clip + " patch_size=small"), HasSubstr("a whole number"));
  EXPECT_THAT(error_of(clip + " patch_size=" + std::string(3000, '[') + std::string(3000, ']')), HasSubstr("a whole number"));
  EXPECT_THAT(error_of("train.py --data-dir /imagenet --model resnet50 --amp --model-kwargs output_stride=16 act_layer=silu"),
              AllOf(HasSubstr("--model-kwargs"), HasSubstr("has no counterpart")));
}

TEST(TimmCommands, AHeadScaledToZerosBeginsAnew) {
  const Translation tuned = made("/imagenet --model vit_tiny_patch16_224 --pretrained --head-init-scale 0.0");
  EXPECT_THAT(tuned.recipe, AllOf(HasSubstr("\nhead_init = \"zeros\"\n"), HasSubstr("\ndont_load = [\"head/.*\"]\n")));
  as_recipe(tuned, {"model.depth=1"});
  EXPECT_THAT(made("/imagenet --model vit_tiny_patch16_224 --head-init-scale 1").recipe, Not(HasSubstr("head_init")));
  EXPECT_THAT(error_of("/imagenet --model vit_tiny_patch16_224 --head-init-scale 0.01"), HasSubstr("--head-init-scale 0.01"));
  EXPECT_THAT(error_of("/imagenet --head-init-scale 0"), HasSubstr("of a ViT"));
}

TEST(TimmCommands, ADataSetOfAnotherNameIsAFolder) {
  EXPECT_THAT(made("/data --dataset imagenet").recipe, HasSubstr("\"folder(/data/train)\""));
  EXPECT_THAT(error_of("/data --dataset torch/cifar10"), HasSubstr("`--dataset torch/cifar10` is not read here"));
}

TEST(TimmCommands, LaunchersMayNameTheScript) {
  const std::string words = "/data --model resnet18 -b 64";
  const std::string recipe = made("./distributed_train.sh 8 " + words).recipe;
  EXPECT_EQ(made("./distributed_train.sh 8 train.py " + words).recipe, recipe);
  EXPECT_EQ(made("python3 launch_xla.py --num-devices 8 train.py " + words).recipe, recipe);
}

TEST(TimmCommands, EpochRepeatsAreHeededWhereTimmHeedsThem) {
  const std::string options = " --epochs 100 --epoch-repeats 3 --warmup-epochs 5 --mixup 0.2 --mixup-off-epoch 80";
  EXPECT_THAT(made("/data --dataset wds/x --train-split t-{0..9}.tar --val-split v.tar" + options).recipe,
              AllOf(HasSubstr("total = \"300 epochs\""), HasSubstr("warmup=15 epochs"), HasSubstr("hold=3 epochs"),
                    HasSubstr("off_epoch = 240"), HasSubstr("every = \"3 epochs\"")));
  EXPECT_THAT(made("/imagenet" + options).recipe, AllOf(HasSubstr("total = \"100 epochs\""), HasSubstr("hold=1 epoch)")));
}

TEST(TimmCommands, TakeTheDefaultsOfBits) {
  const std::string recipe = made("/imagenet", {.defaults = "bits"}).recipe;
  EXPECT_THAT(recipe,
              AllOf(HasSubstr("batch = 256\n"), HasSubstr("weight_decay = 0.0001\n"), HasSubstr("total = \"310 epochs\""),
                    HasSubstr("min=1e-05"), HasSubstr("warmup_start=0.0001"), Not(HasSubstr("color_jitter"))));
  EXPECT_THAT(made("/imagenet").recipe, AllOf(HasSubstr("batch = 128\n"), HasSubstr("color_jitter(0.4)")));
}

TEST(TimmCommands, LookForTheFoldersOfASplitAsTimmDoes) {
  const TemporaryDirectory root("timm");
  const std::string& path = root.path();
  EXPECT_THAT(made(path).recipe, AllOf(HasSubstr("folder(" + path + ")")));
  std::filesystem::create_directories(path + "/training");
  std::filesystem::create_directories(path + "/val");
  EXPECT_THAT(made(path).recipe, AllOf(HasSubstr("folder(" + path + "/training)"), HasSubstr("folder(" + path + "/val)")));
  std::filesystem::create_directories(path + "/train");
  EXPECT_THAT(made(path).recipe, HasSubstr("folder(" + path + "/train)"));
  EXPECT_THAT(made(path + " --val-split=").recipe, Not(HasSubstr("[eval")));
  EXPECT_THAT(translate_timm({"/my photos, all"}, {}).recipe, HasSubstr("folder('/my photos, all/train')"));
}

TEST(TimmCommands, PretrainedWeightsComeFromTheHub) {
  const auto from = [](const std::string& line) {
    return config::parse_recipe(made("/imagenet --pretrained " + line).recipe).section("model_init").text("from");
  };
  EXPECT_EQ(from("--model resnet50"), "hub(timm/resnet50.a1_in1k)");  // timm's own choice
  EXPECT_EQ(from("--model resnet50.tv_in1k"), "hub(timm/resnet50.tv_in1k)");
  EXPECT_EQ(from("--model timm/resnet50.gluon_in1k"), "hub(timm/resnet50.gluon_in1k)");
  EXPECT_EQ(from("--model hf_hub:timm/resnet50.gluon_in1k --torchcompile"), "hub(timm/resnet50.gluon_in1k)");
  EXPECT_EQ(from("--model resnet50 --initial-checkpoint own.pth"), "own.pth");
  EXPECT_EQ(from("--model resnet50 --pretrained-path own.pth"), "own.pth");
}

TEST(TimmCommands, AreRefusedWithTheReason) {
  EXPECT_THAT(error_of("/imagenet --mixupp 0.1"), AllOf(HasSubstr("unknown argument `--mixupp`"), HasSubstr("`--mixup`")));
  EXPECT_THAT(error_of("/imagenet --dec 0.1"), AllOf(HasSubstr("--decay-milestones, --decay-epochs, --decay-rate")));
  EXPECT_THAT(error_of("/imagenet --lr fast"), HasSubstr("`--lr` takes a number, and is `fast`"));
  EXPECT_THAT(error_of("/imagenet --epochs 1.5"), HasSubstr("takes a whole number"));
  EXPECT_THAT(error_of("/imagenet --lr"), HasSubstr("`--lr` needs a value"));
  EXPECT_THAT(error_of("/imagenet --amp=1"), HasSubstr("`--amp` takes no value"));
  EXPECT_THAT(error_of("/imagenet other"), HasSubstr("one word too many"));
  EXPECT_THAT(error_of("--lr 0.1"), HasSubstr("the data directory is missing"));
  EXPECT_THAT(error_of("/imagenet --pretrained --model mixer_s32_224"), HasSubstr("no weights of `mixer_s32_224`"));
  EXPECT_THAT(error_of("/imagenet --tta 2"), HasSubstr("no counterpart"));
  EXPECT_THAT(error_of("/imagenet --opt adamm"), AllOf(HasSubstr("there is no optimizer `adamm`"), HasSubstr("`adam`")));
  EXPECT_THAT(error_of("/imagenet --sched cosin"), HasSubstr("`cosine`"));
  EXPECT_THAT(error_of("/imagenet --model seresnet34"), AllOf(HasSubstr("not among the models"), HasSubstr("resnet34")));
  EXPECT_THAT(error_of("/imagenet --model mobilenetv3_large_100"),
              AllOf(HasSubstr("not among the models"), HasSubstr("tessera models lists those that are")));
  EXPECT_THAT(error_of("validate.py /imagenet --model resnet50 --pretrained"), HasSubstr("tessera eval RECIPE --from"));
  EXPECT_THAT(error_of("python inference.py --data-dir x --model resnet50"), HasSubstr("tessera predict --from"));
  EXPECT_THAT(error_of("/imagenet --resume last.pth.tar"), HasSubstr("--initial-checkpoint last.pth.tar"));
  EXPECT_THAT(error_of("/imagenet --dataset hfds/food101"), HasSubstr("parquet"));
  EXPECT_THAT(error_of("/imagenet --dataset wds/x --train-split train"), HasSubstr("must name tar files"));
  EXPECT_THAT(error_of("/imagenet --input-size 3 224 192"), HasSubstr("3 N N"));
  EXPECT_THAT(error_of("/imagenet --aug-splits 3"), HasSubstr("--jsd-loss"));
  EXPECT_THAT(error_of("/imagenet --clip-grad 1 --clip-mode norms"), HasSubstr("norm, value or agc"));
  EXPECT_THAT(error_of("/imagenet --eval-metric map"), HasSubstr("top1, top5 or loss"));
  EXPECT_THAT(error_of("/imagenet", {.defaults = "old"}), HasSubstr("main or bits"));
  EXPECT_THAT(error_of("./distributed_train.sh --model resnet50"), HasSubstr("needs a number of devices"));
}

class TimmYaml : public ::testing::Test {
 protected:
  std::string file(const std::string& text) const {
    std::ofstream(root_.path() + "/args.yaml") << text;
    return root_.path() + "/args.yaml";
  }
  TemporaryDirectory root_{"timm"};
};

TEST_F(TimmYaml, IsTheSameAsTheWords) {
  const std::string path = file(
      "# A1\nmodel: resnet50\nopt: lamb\nlr: 5e-3\nbatch_size: 512\nepochs: 600\namp: true\nmodel_ema: no\nscale: [0.1, 1.0]\n"
      "aa: rand-m7-mstd0.5-inc1\nclip_grad: null\nmodel_kwargs: {}\nopt_betas: []\nexperiment: ''\n");
  const std::string words =
      "/imagenet --model resnet50 --opt lamb -b 512 --epochs 600 --amp --scale 0.1 1.0 --aa rand-m7-mstd0.5-inc1";
  EXPECT_EQ(made("/imagenet -c " + path).recipe, made(words + " --lr 5e-3").recipe);
  EXPECT_EQ(made("/imagenet --config=" + path + " --lr 0.1").recipe, made(words + " --lr 0.1").recipe);
}

// What timm writes into a run's directory: every argument.
TEST_F(TimmYaml, TakesTimmsArgsYaml) {
  std::string text;
  for (const auto& [name, fallback] : timms()["main"].items()) {
    std::string key = name.substr(2);
    std::ranges::replace(key, '-', '_');
    const std::string value = fallback;
    const Argument* argument = find(with_dashes(name));
    const bool list = argument->takes == Takes::kNumbers || argument->takes == Takes::kTexts;
    if (argument->takes == Takes::kNothing) {
      text += key + ": false\n";
    } else if (value.empty()) {
      text += key + ": null\n";
    } else {
      text += list ? fmt::format("{}: [{}]\n", key, join(split(value, ' '), ", ")) : fmt::format("{}: {}\n", key, value);
    }
  }
  EXPECT_EQ(made("/imagenet -c " + file(text)).recipe, made("/imagenet").recipe);
}

// Files of arguments that were published have the names of their time, and null where timm means none.
TEST_F(TimmYaml, TakesThoseOfOlderVersions) {
  const std::string path = file(
      "amp_impl: native\naot_autograd: false\nbn_tf: false\njsd: false\nnum_gpu: 1\nvalidation_batch_size_multiplier: 2\n"
      "data: /imagenet\ndata_dir: null\ndataset: imagenet\ncolor_jitter: null\nsmoothing: null\ntorchscript: null\n"
      "train_interpolation: ''\nval_split: ''\nmodel_kwargs: {patch_size: 32}\nmodel: vit_tiny_patch16_224\n");
  const std::string words =
      "/imagenet --model vit_tiny_patch16_224 --color-jitter 0 --smoothing 0 --model-kwargs patch_size=32";
  EXPECT_EQ(made("-c " + path).recipe, made(words + " --train-interpolation bicubic --val-split=").recipe);
  EXPECT_THAT(made("-c " + path + " --val-split val").recipe, HasSubstr("batch = 256\n"));
  EXPECT_THAT(made("/other -c " + path).recipe, HasSubstr("folder(/other/train)"));
  EXPECT_THAT(error_of("/imagenet -c " + file("num_gpu: 2\n")), HasSubstr("`--num-gpu` has no counterpart"));
}

TEST_F(TimmYaml, NamesTheLineOfAMistake) {
  EXPECT_THAT(error_of("/imagenet -c " + file("lr: 0.1\nmixupp: 0.2\n")),
              AllOf(HasSubstr("--mixupp"), HasSubstr("args.yaml:2")));
  EXPECT_THAT(error_of("/imagenet -c " + file("lr: fast\n")), AllOf(HasSubstr("takes a number"), HasSubstr("args.yaml:1")));
  EXPECT_THAT(error_of("/imagenet -c " + file("lr: [0.1, 0.2]\n")), HasSubstr("`lr` takes one value"));
  EXPECT_THAT(error_of("/imagenet -c " + file("amp: maybe\n")), HasSubstr("must be true or false"));
  EXPECT_THAT(error_of("/imagenet -c " + file("lr: [0.1\n")), HasSubstr("this is no YAML"));
  for (const char* several :
       {"lr: 0.1\n---\nlr: 0.2\n", "---\n---\nlr: 0.2\n", "lr: 0.1\r\n--- # more\r\n", "lr: 0.1\n...\nlr: 0.2\n"})
    EXPECT_THAT(error_of("/imagenet -c " + file(several)), HasSubstr("the file holds several documents")) << several;
  const std::string one = file("%YAML 1.1\n# of timm\n---\nlr: 0.1\n...\n# the end\n");
  EXPECT_NO_THROW(made("/imagenet -c " + one));
  EXPECT_THAT(error_of("/imagenet -c " + file("- lr\n")), HasSubstr("name: value"));
  EXPECT_THAT(error_of("/imagenet -c " + file("scale: [[1], 2]\n")), HasSubstr("must be a number or text"));
}

TEST_F(TimmYaml, HoldsNoMoreThanACommandLineDoes) {
  std::string list = "1";
  for (int i = 0; i < 1000; ++i) list += ", 1";
  EXPECT_THAT(error_of("/imagenet -c " + file("scale: &x [" + list + "]\nratio: *x\n")),
              AllOf(HasSubstr("more than 1000 values"), HasSubstr("args.yaml:1")));
  EXPECT_THAT(error_of("/imagenet -c " + file("# " + std::string(2 << 20, 'x') + "\n"), {}, Exit::kData),
              AllOf(HasSubstr("args.yaml"), HasSubstr("such a file has 1.00 MiB at most")));
  EXPECT_THAT(error_of("/imagenet -c " + file("lr: 0.1\nlr: 0.2\n")),
              AllOf(HasSubstr("`lr` is there twice"), HasSubstr("args.yaml:2")));
}

TEST_F(TimmYaml, NestsNoDeeperThanStacksReach) {
  constexpr size_t kDepth = 30'000;
  std::string keys;
  for (size_t i = 0; i < kDepth; ++i) keys += "? ";
  for (const std::string& text : {"lr: " + std::string(kDepth, '[') + std::string(kDepth, ']'), keys + "lr"})
    EXPECT_THAT(error_of("/imagenet -c " + file(text + "\n")),
                AllOf(HasSubstr("the file nests too deep"), HasSubstr("args.yaml:1")));
}

}  // namespace
}  // namespace tessera::translate
