#include "recipe/translate/vit10b.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"
#include "store/file.h"

namespace tessera::translate {
namespace {

using enum Kind;
using enum Takes;

constexpr Argument kVit10bArguments[] = {
    {"--data_dir", kText, kExact, "/datasets/imagenet-1k",
     "`data.source` and `eval.val.data.source`: its folders `train` and `val`"},
    {"--fake_data", kNothing, kExact, "", "`fake(images=1281167, classes=1000)` and 50,000 images to evaluate, all black"},
    {"--num_workers", kInteger, kIgnored, "4", "one thread a core decodes; data.threads=N to change that"},
    {"--ckpt_dir", kText, kExact, "/tmp/vit_fsdp", "the run's directory; runs/vit_10b-N when not given"},
    {"--resume_epoch", kInteger, kIgnored, "0", "the same command with the same directory continues, from the exact step"},
    {"--ckpt_epoch_interval", kInteger, kExact, "10", "`checkpoint.every`; the last two stay"},
    {"--test_epoch_interval", kInteger, kExact, "10",
     "`eval.val.every`; of all images, where the example leaves a last part out"},
    {"--log_step_interval", kInteger, kExact, "20", "`log`"},
    {"--image_size", kInteger, kExact, "224", "the size that both chains make; evaluation resizes to 256 / 224 of it first"},
    {"--patch_size", kInteger, kExact, "14", "`model.patch`"},
    {"--embed_dim", kInteger, kExact, "5120", "`model.width`"},
    {"--num_heads", kInteger, kExact, "32", "`model.heads`"},
    {"--num_blocks", kInteger, kExact, "32", "`model.depth`"},
    {"--mlp_ratio", kNumber, kExact, "4", "`model.mlp_dim`, as a number"},
    {"--pos_dropout", kNumber, kExact, "0", "`model.embed_dropout`"},
    {"--att_dropout", kNumber, kExact, "0", "`model.attn_dropout`"},
    {"--mlp_dropout", kNumber, kExact, "0", "`model.dropout`"},
    {"--num_classes", kInteger, kExact, "1000", "`model.classes`, and of --fake_data"},
    {"--batch_size", kInteger, kExact, "1024", "`data.batch`, of all devices together; of evaluation too"},
    {"--num_epochs", kInteger, kExact, "300",
     "`total`; an epoch is as many steps as the images fill, a part of one included, which the example leaves out"},
    {"--lr", kNumber, kExact, "1e-3", "`optimizer.lr`"},
    {"--weight_decay", kNumber, kExact, "0.1", "`optimizer.weight_decay`, of all parameters: `optimizer.decay_mask = \"all\"`"},
    {"--clip_grad_norm", kNumber, kExact, "1", "`optimizer.clip`; 0: none"},
    {"--warmup_steps", kInteger, kExact, "10000", "`warmup=` of `optimizer.lr`"},
    {"--no_grad_ckpt", kNothing, kExact, "", "`model.remat = \"none\"`, else \"full\"; \"dots\" is in between"},
    {"--no_reshard_after_forward", kNothing, kExact, "", "`sharding.reshard = false`: parameters stay gathered for the step"},
    {"--flatten_parameters", kNothing, kIgnored, "", "arrays are split along a dimension, without padding"},
    {"--run_without_fsdp", kNothing, kExact, "", "`mesh = \"replica=-1\"`, else \"fsdp=-1\""},
    {"--shard_on_cpu", kNothing, kIgnored, "", "parameters are drawn on the devices, each its own part"},
};

void write_run(const Arguments& args, RecipeText& out) {
  out.raw("seed", "0");
  out.string("total", fmt::format("{} epochs", args.integer("num_epochs")));
  out.string("mesh", args.flag("run_without_fsdp") ? "replica=-1" : "fsdp=-1");
  out.string("log", fmt::format("{} steps", args.integer("log_step_interval")));
  out.raw("checkpoint", fmt::format("{{ every = \"{} epochs\", keep = 2 }}", args.integer("ckpt_epoch_interval")));
  if (args.flag("no_reshard_after_forward")) out.raw("sharding", "{ reshard = false }");
}

std::string source(const Arguments& args, const char* split, int64_t images) {
  if (args.flag("fake_data")) return fmt::format("fake(images={}, classes={})", images, args.integer("num_classes"));
  return fmt::format("folder({})", call_value(store::join_path(args.text("data_dir"), split)));
}

void write_data(const Arguments& args, RecipeText& out) {
  out.section("data");
  out.string("source", source(args, "train", 1'281'167));
  out.raw("batch", fmt::format("{}", args.integer("batch_size")));
  out.string("pp", fmt::format("decode | random_resized_crop({}, interpolation=bicubic) | flip_lr | normalise()",
                               args.integer("image_size")));
  out.raw("\n[objective]\nname", "\"softmax\"");
}

void write_optimizer(const Arguments& args, RecipeText& out) {
  const double clip = args.number("clip_grad_norm");
  const int64_t warmup = args.integer("warmup_steps");
  out.section("optimizer");
  out.string("name", "adamw");
  out.string("lr", fmt::format("cosine({}{})", number_text(args.number("lr")),
                               warmup > 0 ? fmt::format(", warmup={} steps", warmup) : ""));
  out.number("weight_decay", args.number("weight_decay"));
  out.string("decay_mask", "all");
  if (clip > 0) out.string("clip", fmt::format("norm({})", number_text(clip)));
}

void write_model(const Arguments& args, RecipeText& out) {
  out.section("model");
  out.string("name", "vit");
  for (const auto& [key, name] : {std::pair{"width", "embed_dim"}, std::pair{"depth", "num_blocks"},
                                  std::pair{"heads", "num_heads"}, std::pair{"patch", "patch_size"}}) {
    out.raw(key, fmt::format("{}", args.integer(name)));
  }
  if (args.given("mlp_ratio")) {  // as int(dim * ratio) in timm
    const double width = static_cast<double>(args.integer("embed_dim")) * args.number("mlp_ratio");
    out.raw("mlp_dim", fmt::format("{}", static_cast<int64_t>(width)));
  }
  if (args.given("num_classes")) out.raw("classes", fmt::format("{}", args.integer("num_classes")));
  for (const auto& [key, name] : {std::pair{"embed_dropout", "pos_dropout"}, std::pair{"attn_dropout", "att_dropout"},
                                  std::pair{"dropout", "mlp_dropout"}}) {
    if (args.given(name)) out.number(key, args.number(name));
  }
  out.string("pool", "gap");
  out.boolean("class_token", false);
  out.string("final_norm", "before_pool");
  out.raw("norm_epsilon", "1e-5");
  out.raw("final_norm_epsilon", "1e-6");
  out.string("remat", args.flag("no_grad_ckpt") ? "none" : "full");
}

void write_evaluation(const Arguments& args, RecipeText& out) {
  const int64_t size = args.integer("image_size");
  out.section("eval.val");
  out.string("type", "classification");
  out.string("every", fmt::format("{} epochs", args.integer("test_epoch_interval")));
  out.section("eval.val.data");
  out.string("source", source(args, "val", 50'000));
  out.string("pp", fmt::format("decode | resize_small({}, interpolation=bicubic) | central_crop({}) | normalise()",
                               size * 256 / 224, size));
}

}  // namespace

std::span<const Argument> vit10b_arguments() { return kVit10bArguments; }

Translation translate_vit10b(std::vector<std::string> words) {
  const auto script =
      std::ranges::find_if(words, [](const std::string& word) { return word.ends_with("run_vit_training.py"); });
  if (script != words.end()) words.erase(words.begin(), script + 1);
  Arguments args(vit10b_arguments());
  Translation out;
  for (const std::string& word : args.parse(words)) {
    if (!is_setting(word)) throw usage_error(fmt::format("`{}` is one word too many", word), {}, "tessera vit10b --list");
    out.overrides.push_back(word);
  }
  RecipeText text;
  tell_of(args, out.notes);
  for (const std::string& note : out.notes) text.comment(note);
  write_run(args, text);
  write_data(args, text);
  write_optimizer(args, text);
  write_model(args, text);
  write_evaluation(args, text);
  out.recipe = text.text();
  out.name = "vit_10b";
  if (args.given("ckpt_dir")) out.workdir = args.text("ckpt_dir");
  return out;
}

}  // namespace tessera::translate
