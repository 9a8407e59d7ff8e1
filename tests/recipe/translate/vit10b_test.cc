// The arguments of the 10-billion-parameter ViT example.
#include "recipe/translate/vit10b.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "recipe/recipe.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::translate {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string made(const std::string& line) {
  return translate_vit10b(line.empty() ? std::vector<std::string>() : split(line, ' ')).recipe;
}

std::string error_of(const std::string& line) {
  try {
    made(line);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage) << line;
    return error.what();
  }
  return "no error";
}

TEST(Vit10bArguments, AreTheExamplesWithItsDefaults) {
  const nlohmann::json json =
      nlohmann::json::parse(testing::slurp(testing::source_path("tests/references/timm_commands.json")))["vit10b"];
  for (const Argument& argument : vit10b_arguments()) {
    ASSERT_TRUE(json.contains(long_name(argument))) << long_name(argument);
    const std::string fallback = json[long_name(argument)];
    const bool number = argument.takes == Takes::kNumber || argument.takes == Takes::kInteger;
    if (number) {
      EXPECT_EQ(std::stod(argument.fallback), std::stod(fallback)) << long_name(argument);
    } else {
      EXPECT_EQ(argument.fallback, fallback) << long_name(argument);
    }
  }
  EXPECT_EQ(json.size(), vit10b_arguments().size());
}

TEST(Vit10bArguments, AreListedInTheDocument) {
  EXPECT_THAT(testing::slurp(testing::source_path("docs/from/vit_10b_arguments.md")),
              HasSubstr(argument_lists(vit10b_arguments())))
      << "put what `tessera vit10b --list` prints into docs/from/vit_10b_arguments.md";
}

// The recipe that is kept says the same as the example's defaults.
TEST(Vit10b, WithoutArgumentsIsTheRecipe) {
  const auto keys_that_differ = [](const std::string& line) {
    const auto resolved = [](const std::string& text) {
      std::string same = text;  // numbers in calls are text, and may be written in several ways
      for (const auto& [from, to] : {std::pair{"norm(1.0)", "norm(1)"}, std::pair{"cosine(1e-3", "cosine(0.001"}}) {
        const size_t at = same.find(from);
        if (at != std::string::npos) same.replace(at, std::string(from).size(), to);
      }
      config::Section recipe = config::parse_recipe(same, "made", {"model.depth=1", "model.width=64", "model.heads=2"});
      return recipe::read_recipe(std::move(recipe)).text;
    };
    std::vector<std::string> keys;
    for (const config::Difference& one :
         config::difference(resolved(made(line)), resolved(testing::slurp(testing::source_path("recipes/vit_10b.toml"))))) {
      keys.push_back(one.key);
    }
    return keys;
  };
  EXPECT_THAT(keys_that_differ("--fake_data"), ElementsAre());
  EXPECT_THAT(keys_that_differ("--fake_data --lr 2e-3 --pos_dropout 0.1 --batch_size 64"),
              ElementsAre("data.batch", "model.embed_dropout", "optimizer.lr"));
}

TEST(Vit10b, TakesEveryArgument) {
  const std::string recipe = made(
      "python3 -u run_vit_training.py --data_dir /imagenet --image_size 112 --mlp_ratio 3 --att_dropout 0.1 --mlp_dropout 0.2 "
      "--num_classes 10 --num_epochs 9 --weight_decay 0.3 --clip_grad_norm 0 --warmup_steps 0 --no_grad_ckpt "
      "--no_reshard_after_forward --run_without_fsdp --ckpt_epoch_interval 3 --test_epoch_interval 2 --log_step_interval 7 "
      "--shard_on_cpu");
  EXPECT_THAT(recipe, AllOf(HasSubstr("folder(/imagenet/train)"), HasSubstr("folder(/imagenet/val)"),
                            HasSubstr("random_resized_crop(112, interpolation=bicubic)"),
                            HasSubstr("resize_small(128, interpolation=bicubic)"), HasSubstr("mlp_dim = 15360"),
                            HasSubstr("attn_dropout = 0.1"), HasSubstr("\ndropout = 0.2"), HasSubstr("classes = 10\n")));
  EXPECT_THAT(recipe, AllOf(HasSubstr("total = \"9 epochs\""), HasSubstr("weight_decay = 0.3"), HasSubstr("\"cosine(0.001)\""),
                            Not(HasSubstr("clip")), HasSubstr("remat = \"none\""), HasSubstr("sharding = { reshard = false }"),
                            HasSubstr("mesh = \"replica=-1\""), HasSubstr("every = \"3 epochs\", keep"),
                            HasSubstr("every = \"2 epochs\"\n"), HasSubstr("log = \"7 steps\"")));
  EXPECT_THAT(recipe, HasSubstr("# ignored: --shard_on_cpu"));
}

TEST(Vit10b, RefusesWhatIsUnknown) {
  EXPECT_THAT(error_of("--embed_dims 64"), AllOf(HasSubstr("unknown argument"), HasSubstr("--embed_dim")));
  EXPECT_THAT(error_of("imagenet"), HasSubstr("one word too many"));
  EXPECT_THAT(error_of("--embed_dim wide"), HasSubstr("takes a whole number"));
}

}  // namespace
}  // namespace tessera::translate
