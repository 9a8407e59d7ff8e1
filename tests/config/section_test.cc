#include "config/section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"

namespace tessera::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Keep {
  std::string every = "10 epochs";
  int64_t keep = 2;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("every", every, "interval of saving");
    field("keep", keep, "how many to keep");
  }
};

struct RunOptions {
  int64_t seed = 0;
  std::string total = "60 epochs";
  bool strict = true;
  Keep checkpoint;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("seed", seed, "of everything random");
    field("total", total, "length of training: \"60 epochs\"");
    field("strict", strict, "");
    field("checkpoint", checkpoint, "");
  }
};

struct AdamW {
  std::string lr = "1e-3";
  double weight_decay = 0.05;
  double b1 = 0.9;
  std::optional<double> clip;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("lr", lr, "schedule of the learning rate");
    field("weight_decay", weight_decay, "decoupled weight decay");
    field("b1", b1, "decay of the first moment");
    field("clip", clip, "largest global norm");
  }
};

struct Lists {
  std::vector<double> mean = {0.5, 0.25};
  std::vector<int64_t> sizes;
  std::vector<std::string> names = {"a"};
  std::vector<bool> flags;
  std::optional<std::vector<double>> std;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("mean", mean, "");
    field("sizes", sizes, "");
    field("names", names, "");
    field("flags", flags, "");
    field("std", std, "");
  }
};

// The error of `body`, to look at its parts.
template <class Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error was thrown";
  return usage_error("");
}

TEST(Section, BindsFieldsAndKeepsDefaults) {
  Section recipe = parse_recipe("seed = 7\ncheckpoint = { keep = 5 }\n", "r.toml");
  RunOptions run;
  recipe.bind(run);
  EXPECT_EQ(run.seed, 7);
  EXPECT_EQ(run.total, "60 epochs");
  EXPECT_EQ(run.checkpoint.keep, 5);
  EXPECT_EQ(run.checkpoint.every, "10 epochs");
  recipe.finish();
}

TEST(Section, NumbersWidenButNeverNarrow) {
  Section recipe = parse_recipe("optimizer = { lr = 3e-4, weight_decay = 1 }\nseed = 1e3\n", "r.toml");
  AdamW adamw;
  recipe.section("optimizer").bind(adamw);
  EXPECT_EQ(adamw.lr, "0.0003");
  EXPECT_EQ(adamw.weight_decay, 1.0);
  RunOptions run;
  const Error error = error_of([&] { recipe.bind_part(run); });
  EXPECT_EQ(error.code(), Exit::kUsage);
  EXPECT_EQ(error.message(), "`seed` must be a whole number, found the number 1000.0");
  EXPECT_EQ(error.where(), "r.toml:2");
  EXPECT_EQ(error.help(), "write 1000; of everything random");
}

TEST(Section, WrongTypesSayWhatWasFound) {
  const auto message = [](const std::string& text) {
    return error_of([&] {
             Section recipe = parse_recipe(text, "r.toml");
             RunOptions run;
             recipe.bind(run);
           })
        .message();
  };
  EXPECT_EQ(message("seed = \"x\""), "`seed` must be a whole number, found the text \"x\"");
  EXPECT_EQ(message("seed = 1.5"), "`seed` must be a whole number, found the number 1.5");
  EXPECT_EQ(message("strict = 1"), "`strict` must be true or false, found the whole number 1");
  EXPECT_EQ(message("total = true"), "`total` must be text, found true");
  EXPECT_EQ(message("total = [1, 2]"), "`total` must be text, found the list [1, 2]");
  EXPECT_EQ(message("seed = { a = 1 }"), "`seed` must be a whole number, found a table");
  EXPECT_EQ(message("checkpoint = 3"), "`checkpoint` must be a table, found the whole number 3");
  EXPECT_EQ(message("checkpoint = { keep = \"2\" }"), "`checkpoint.keep` must be a whole number, found the text \"2\"");
}

TEST(Section, ListsAreCheckedItemByItem) {
  Lists lists;
  parse_recipe("mean = [1, 0.5]\nsizes = [3]\nflags = [true, false]\nstd = []").bind(lists);
  EXPECT_THAT(lists.mean, ElementsAre(1.0, 0.5));
  EXPECT_THAT(lists.sizes, ElementsAre(3));
  EXPECT_THAT(lists.flags, ElementsAre(true, false));
  EXPECT_THAT(lists.names, ElementsAre("a"));
  ASSERT_TRUE(lists.std.has_value());
  EXPECT_TRUE(lists.std->empty());
  EXPECT_EQ(error_of([&] { parse_recipe("sizes = [1, 2.5]").bind(lists); }).message(),
            "`sizes` must be a list of whole numbers, found the list [1, 2.5]");
  EXPECT_EQ(error_of([&] { parse_recipe("sizes = 1").bind(lists); }).message(),
            "`sizes` must be a list of whole numbers, found the whole number 1");
}

TEST(Section, UnknownKeyNamesTheNearest) {
  Section recipe = parse_recipe("seed = 1\n\n[optim]\nlearning_rate = 1e-3\n", "flowers.toml");
  RunOptions run;
  recipe.bind_part(run);
  AdamW adamw;
  recipe.section("optimizer").bind(adamw);
  const Error error = error_of([&] { recipe.finish(); });
  EXPECT_EQ(error.message(), "unknown key `optim.learning_rate`");
  EXPECT_EQ(error.where(), "flowers.toml:4");
  EXPECT_EQ(error.help(), "did you mean `optimizer.lr`?  All keys: tessera help optimizer");
  EXPECT_EQ(error.code(), Exit::kUsage);
}

TEST(Section, UnknownKeyInABoundSectionIsAnErrorAtOnce) {
  AdamW adamw;
  Section near = parse_recipe("[optimizer]\nweight_decy = 0.1", "r.toml");
  Error error = error_of([&] { near.section("optimizer").bind(adamw); });
  EXPECT_EQ(error.message(), "unknown key `optimizer.weight_decy`");
  EXPECT_EQ(error.help(), "did you mean `optimizer.weight_decay`?  All keys: tessera help optimizer");
  Section far = parse_recipe("", "r.toml", {"optimizer.zzz=1"});
  error = error_of([&] { far.section("optimizer").bind(adamw); });
  EXPECT_EQ(error.where(), "override optimizer.zzz=1");
  EXPECT_EQ(error.help(), "known keys of `optimizer`: lr, weight_decay, b1, clip  All keys: tessera help optimizer");
}

TEST(Section, FinishFindsUnknownKeysAnywhere) {
  const auto finish = [](const std::string& text) {
    return error_of([&] {
      Section recipe = parse_recipe(text, "r.toml");
      RunOptions run;
      recipe.bind_part(run);
      for (const std::string& name : recipe.section("eval").keys()) {
        recipe.section("eval").section(name).text("type", "classification");
      }
      recipe.finish();
    });
  };
  EXPECT_EQ(finish("[eval.val]\ntipe = \"x\"").message(), "unknown key `eval.val.tipe`");
  EXPECT_THAT(finish("[eval.val]\ntipe = \"x\"").help(), HasSubstr("did you mean `eval.val.type`?"));
  EXPECT_EQ(finish("evall = {}").message(), "unknown key `evall`");
  EXPECT_EQ(finish("zzzzzz = 1").help(), "known keys: seed, total, strict, checkpoint, eval  All keys: tessera help");
  EXPECT_THAT(finish("epochs = 3").help(), HasSubstr("did you mean `total`, as total = \"90 epochs\"?"));
}

TEST(Section, NameChoosesAComponentAndTextIsShorthand) {
  Section recipe =
      parse_recipe("model = \"vit\"\noptimizer = { name = \"adamw\", b1 = 0.8 }\ncheckpoint = \"5 epochs\"\n", "r.toml");
  EXPECT_EQ(recipe.section("model").name(), "vit");
  Section optimizer = recipe.section("optimizer");
  EXPECT_EQ(optimizer.name("sgd"), "adamw");
  AdamW adamw;
  optimizer.bind(adamw);
  EXPECT_EQ(adamw.b1, 0.8);
  RunOptions run;
  recipe.bind(run);
  EXPECT_EQ(run.checkpoint.every, "5 epochs");
  recipe.finish();
  EXPECT_EQ(recipe.section("objective").name("softmax"), "softmax");
  EXPECT_EQ(error_of([&] { recipe.section("data").name(); }).message(), "the key `data.name` is missing");
}

TEST(Section, ShorthandCombinesWithDeeperOverrides) {
  Section recipe = parse_recipe("model = \"vit\"\n", "r.toml", {"model.width=96"});
  Section model = recipe.section("model");
  EXPECT_EQ(model.name(), "vit");
  EXPECT_EQ(model.text("width"), "96");
  Section renamed = parse_recipe("model = \"vit\"\n", "r.toml", {"model.name=mlp"});
  EXPECT_EQ(renamed.section("model").name(), "mlp");
  renamed.finish();
  EXPECT_EQ(renamed.dump(), "[model]\nname = \"mlp\"\n");
}

TEST(Section, OverridesReachIntoTablesAndMakeThem) {
  Section recipe = parse_recipe("optimizer = { lr = \"x\", b1 = 0.5 }\n", "r.toml",
                                {"optimizer.lr=cosine(1e-3, warmup=5 steps)", "total=12 epochs", "seed = 3",
                                 "eval.test.type=classification", "strict=false", "optimizer.weight_decay=1e-2"});
  RunOptions run;
  recipe.bind_part(run);
  EXPECT_EQ(run.total, "12 epochs");
  EXPECT_EQ(run.seed, 3);
  EXPECT_FALSE(run.strict);
  AdamW adamw;
  recipe.section("optimizer").bind(adamw);
  EXPECT_EQ(adamw.lr, "cosine(1e-3, warmup=5 steps)");
  EXPECT_EQ(adamw.b1, 0.5);
  EXPECT_EQ(adamw.weight_decay, 0.01);
  EXPECT_THAT(recipe.section("eval").keys(), ElementsAre("test"));
  EXPECT_EQ(recipe.where("total"), "override total=12 epochs");
  EXPECT_EQ(recipe.section("eval").section("test").text("type"), "classification");
  recipe.finish();
}

TEST(Section, LaterOverridesReplace) {
  Section recipe =
      parse_recipe("optimizer = { b1 = 0.5 }\n", "r.toml", {"optimizer.b1=0.6", "optimizer={b1=0.7}", "seed=1", "seed=2"});
  AdamW adamw;
  recipe.section("optimizer").bind(adamw);
  EXPECT_EQ(adamw.b1, 0.7);
  RunOptions run;
  recipe.bind(run);
  EXPECT_EQ(run.seed, 2);
}

TEST(Section, OverrideValuesAreTomlOrText) {
  const auto value = [](const std::string& text) { return parse_recipe("", "r.toml", {"k=" + text}).text("k"); };
  EXPECT_EQ(value("vit"), "vit");
  EXPECT_EQ(value("\"a b\""), "a b");
  EXPECT_EQ(value("'a\\b'"), "a\\b");
  EXPECT_EQ(value(""), "");
  EXPECT_EQ(value("3 # x"), "3 # x");
  EXPECT_EQ(value("1\nb = 2"), "1\nb = 2");
  EXPECT_EQ(value("folder(a=b, c)"), "folder(a=b, c)");
  EXPECT_EQ(value("2024-01-01"), "2024-01-01");
  EXPECT_EQ(value("0.50"), "0.5");
}

TEST(Section, BadOverridesTeach) {
  const auto error = [](const std::string& text) { return error_of([&] { parse_recipe("seed = 1", "r.toml", {text}); }); };
  EXPECT_EQ(error("seed").message(), "`seed` is not an override");
  EXPECT_THAT(error("seed").help(), HasSubstr("key=value"));
  EXPECT_EQ(error("a..b=1").message(), "`a..b` is not a key");
  EXPECT_EQ(error("=1").message(), "`` is not a key");
  EXPECT_EQ(error("+a=1").message(), "`+a` is not a key");
  EXPECT_EQ(error("seed.x=1").message(), "`seed` is the whole number 1, so it has no key `x`");
  EXPECT_EQ(error("seed.x=1").where(), "override seed.x=1");
  EXPECT_THAT(error("a=[1, 2").message(), HasSubstr("`[1, 2` is not a TOML value"));
}

TEST(Section, InvalidTomlNamesTheLine) {
  const Error error = error_of([] { parse_recipe("seed = 0\nname = vit\n", "r.toml"); });
  EXPECT_THAT(error.message(), HasSubstr("the recipe is not valid TOML"));
  EXPECT_EQ(error.where(), "r.toml:2");
  EXPECT_THAT(error.help(), HasSubstr("the line reads `name = vit`"));
  EXPECT_THAT(error.help(), HasSubstr("text stands in quotes"));
  EXPECT_THAT(error_of([] { parse_recipe("source = \"csv(a.csv, sep=\";\")\"\n", "r.toml"); }).help(),
              HasSubstr("stands in single ones (source = 'csv(a.csv, sep=\";\")')"));
  EXPECT_THAT(error_of([] { parse_recipe("a = 1\na = 2\n", "r.toml"); }).where(), HasSubstr("r.toml:2"));
  EXPECT_EQ(error_of([] { parse_recipe("\nday = 2024-01-01", "r.toml"); }).where(), "r.toml:2");
}

TEST(Section, DumpIsResolvedOrderedAndParsesBack) {
  const auto resolve = [](const std::string& text) {
    Section recipe = parse_recipe(text, "r.toml");
    RunOptions run;
    recipe.bind_part(run);
    Section optimizer = recipe.section("optimizer");
    optimizer.name();
    AdamW adamw;
    optimizer.bind(adamw);
    Lists lists;
    recipe.section("lists").bind(lists);
    recipe.section("eval");
    for (const std::string& name : recipe.section("eval").keys()) {
      recipe.section("eval").section(name).section("data").text("source", "folder(\"x\\y\")\n");
    }
    recipe.finish();
    return recipe.dump();
  };
  const std::string expected = R"(seed = 3
total = "60 epochs"
strict = true

[checkpoint]
every = "10 epochs"
keep = 2

[optimizer]
name = "adamw"
lr = "1e-3"
weight_decay = 1.0
b1 = 0.9

[lists]
mean = [0.5, 0.25]
sizes = []
names = ["a"]
flags = []

[eval.val.data]
source = "folder(\"x\\y\")\n"
)";
  const std::string dumped = resolve("[eval.val]\n[optimizer]\nweight_decay = 1\nname = \"adamw\"");
  EXPECT_NE(dumped, expected);  // the seed differs
  EXPECT_EQ(resolve("seed = 3\n[eval.val]\n[optimizer]\nweight_decay = 1\nname = \"adamw\""), expected);
  EXPECT_EQ(resolve("optimizer = { name = \"adamw\", weight_decay = 1.0 }\nseed = 3\n[eval.val]"), expected);
  EXPECT_EQ(resolve(expected), expected);
}

TEST(Section, DumpKeepsValuesExactly) {
  const double values[] = {0.1, 1e-300, 1.0 / 3, 5e20, -0.0, std::numeric_limits<double>::infinity(), 123456789.0};
  for (const double value : values) {
    Section out = parse_recipe("");
    AdamW adamw;
    adamw.b1 = value;
    out.bind(adamw);
    AdamW back;
    back.b1 = 7;
    parse_recipe(out.dump()).bind(back);
    EXPECT_EQ(back.b1, value) << out.dump();
    EXPECT_EQ(std::signbit(back.b1), std::signbit(value));
  }
  Section text = parse_recipe("");
  const std::string odd = "quote \" slash \\ tab \t bell \x07 é {";
  text.text("k", odd);
  EXPECT_EQ(parse_recipe(text.dump()).text("k"), odd);
}

TEST(Section, DumpKeepsWhatNobodyAskedFor) {
  Section recipe = parse_recipe("model = \"vit\"\nx = [{ a = 1 }, {}]\n[empty]\n[\"odd key\"]\nb = 1\n");
  EXPECT_EQ(recipe.dump(), "model = \"vit\"\nx = [{ a = 1 }, {}]\n\n[empty]\n\n[\"odd key\"]\nb = 1\n");
}

TEST(Section, EvaluatorsKeepTheOrderOfTheRecipe) {
  Section recipe = parse_recipe("[eval.z]\n[eval.a]\n[eval.m]\n");
  EXPECT_THAT(recipe.section("eval").keys(), ElementsAre("z", "a", "m"));
  EXPECT_EQ(error_of([] { parse_recipe("eval = \"x\"", "r.toml").section("eval").keys(); }).message(),
            "`eval` must be a table, found the text \"x\"");
}

TEST(Section, PlacesAndFailures) {
  Section recipe = parse_recipe("seed = 1\n[model]\npatch = 5\n", "r.toml", {"model.width=7"});
  Section model = recipe.section("model");
  EXPECT_EQ(recipe.path(), "");
  EXPECT_EQ(recipe.path("seed"), "seed");
  EXPECT_EQ(model.path("patch"), "model.patch");
  EXPECT_EQ(model.where("patch"), "r.toml:3");
  EXPECT_EQ(model.where("width"), "override model.width=7");
  EXPECT_EQ(model.where("absent"), "r.toml:2");
  EXPECT_EQ(recipe.where("absent"), "r.toml");
  EXPECT_EQ(model.place("patch"), "`model.patch`, r.toml:3");
  EXPECT_TRUE(model.has("patch"));
  EXPECT_FALSE(model.has("depth"));
  model.text("depth", "3");
  EXPECT_FALSE(model.has("depth"));
  const Error error = error_of([&] { model.fail("patch", "must divide the image size 18, and is 5", "use 3, 6 or 9"); });
  EXPECT_STREQ(error.what(), "`model.patch` must divide the image size 18, and is 5\n  --> r.toml:3\nhelp: use 3, 6 or 9");
}

TEST(Section, MissingKeyNamesASlip) {
  Section recipe = parse_recipe("[optimizer]\nlearning_rate = 1\n", "r.toml");
  const Error error = error_of([&] { recipe.section("optimizer").text("lr"); });
  EXPECT_EQ(error.message(), "the key `optimizer.lr` is missing");
  EXPECT_EQ(error.where(), "r.toml:1");
  EXPECT_EQ(error.help(), "is `optimizer.learning_rate` (r.toml:2) meant?");
}

TEST(Section, TwoReadersShareASectionAndItsDefaults) {
  Section recipe = parse_recipe("[data]\nkeep = 4\nlr = 1\n");
  Keep keep;
  AdamW adamw;
  recipe.section("data").bind_part(keep);
  recipe.section("data").bind(adamw);
  EXPECT_EQ(keep.keep, 4);
  EXPECT_EQ(adamw.lr, "1");
  Keep other;
  other.every = "never read: the first reader fixed the default";
  recipe.section("data").bind(other);
  EXPECT_EQ(other.every, "10 epochs");
  recipe.finish();
}

TEST(LoadRecipe, ReadsFilesAndNamesNeighbours) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "config_load_recipe";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "digits.toml").string();
  std::ofstream(path) << "seed = 5\n";
  RunOptions run;
  load_recipe(path, {"strict=false"}).bind(run);
  EXPECT_EQ(run.seed, 5);
  EXPECT_FALSE(run.strict);
  EXPECT_EQ(load_recipe(path).where("seed"), path + ":1");
  const Error error = error_of([&] { load_recipe((folder / "digit.toml").string()); });
  EXPECT_THAT(error.message(), HasSubstr("there is no recipe file"));
  EXPECT_EQ(error.help(), "did you mean `" + path + "`?");
  EXPECT_EQ(error_of([&] { load_recipe((folder / "digits").string()); }).help(), "did you mean `" + path + "`?");
  EXPECT_EQ(error_of([&] { load_recipe((folder / "digits.tml").string()); }).help(), "did you mean `" + path + "`?");
  EXPECT_EQ(error_of([] { load_recipe("folder(photos)"); }).help(),
            "it reads as images: a recipe has data.source = 'folder(photos)'");
  EXPECT_THAT(error_of([] { load_recipe("/nowhere/x.toml"); }).help(), HasSubstr("a recipe is a TOML file"));
  const Error of_recipes = error_of([&] { load_recipe(folder.string()); });
  EXPECT_EQ(of_recipes.message(), "`" + folder.string() + "` is a directory, and no recipe");
  EXPECT_EQ(of_recipes.help(), "it has " + path);
  const std::string gone = (folder / "gone.toml").string();
  std::filesystem::remove(gone);  // of an earlier time
  std::filesystem::create_symlink("nowhere", gone);
  EXPECT_THAT(error_of([&] { load_recipe(gone); }).help(), ::testing::AllOf(HasSubstr(path), ::testing::Not(HasSubstr(gone))));
  const std::string images = (folder / "images").string();
  std::filesystem::create_directories(images);
  const Error of_images = error_of([&] { load_recipe(images); });
  EXPECT_EQ(of_images.message(), "`" + images + "` is a directory, and no recipe");
  EXPECT_THAT(of_images.help(), HasSubstr("data.source=\"folder(" + images + ")\""));
  std::ofstream(images + ".jpg") << std::string("\xff\xd8\xff\xe0\0\x10JFIF", 10);
  EXPECT_THAT(error_of([&] { load_recipe(images + ".jpg"); }).message(),
              HasSubstr("is no recipe: it has bytes that no text has"));
  const std::string workdir = (folder / "run").string();
  std::filesystem::create_directories(workdir);
  std::ofstream(workdir + "/recipe.toml") << "seed = 5\n";
  const Error directory = error_of([&] { load_recipe(workdir); });
  EXPECT_THAT(directory.message(), HasSubstr("is a directory of a run"));
  EXPECT_THAT(directory.help(), HasSubstr("its recipe is " + workdir + "/recipe.toml"));
  std::filesystem::resize_file(path, uint64_t{1} << 40);  // a hole, which memory does not hold
  EXPECT_THAT(error_of([&] { load_recipe(path); }).message(), HasSubstr("` is no recipe: it has more than 4.00 MiB"));
  // A file that is opened, and whose first read fails.
  EXPECT_THAT(error_of([] { load_recipe("/proc/self/mem"); }).what(), HasSubstr("`/proc/self/mem` can't be read"));
}

TEST(DifferenceOf, ListsKeysThatDiffer) {
  const auto differences = difference("a = 1\nb = { c = [1, 2], d = \"x\" }\ne = 1.0\n",
                                      "e = 1.0\n[b]\nd = \"y\"\nc = [1, 2]\n[f]\ng = true\n[h]\n");
  ASSERT_EQ(differences.size(), 4u);
  EXPECT_EQ(differences[0].key, "a");
  EXPECT_EQ(differences[0].left, "1");
  EXPECT_EQ(differences[0].right, "");
  EXPECT_EQ(differences[1].key, "b.d");
  EXPECT_EQ(differences[1].left, "\"x\"");
  EXPECT_EQ(differences[1].right, "\"y\"");
  EXPECT_EQ(differences[2].key, "f.g");
  EXPECT_EQ(differences[3].key, "h");
  EXPECT_TRUE(difference("", "# nothing\n").empty());
}

TEST(Describe, ListsFieldsWithTypesAndDefaults) {
  const auto docs = describe<RunOptions>();
  ASSERT_EQ(docs.size(), 5u);
  EXPECT_EQ(docs[0].key, "seed");
  EXPECT_EQ(docs[0].type, "a whole number");
  EXPECT_EQ(docs[0].default_value, "0");
  EXPECT_EQ(docs[0].help, "of everything random");
  EXPECT_EQ(docs[3].key, "checkpoint.every");
  EXPECT_EQ(docs[3].default_value, "\"10 epochs\"");
  RunOptions changed;
  changed.strict = false;
  changed.checkpoint.keep = 3;
  EXPECT_EQ(changed_keys(changed), "strict = false\ncheckpoint.keep = 3\n");
  EXPECT_EQ(changed_keys(RunOptions()), "");
  const auto adamw = describe(AdamW{}, "optimizer");
  EXPECT_EQ(adamw[3].key, "optimizer.clip");
  EXPECT_EQ(adamw[3].type, "a number");
  EXPECT_EQ(adamw[3].default_value, "");
  EXPECT_EQ(describe<Lists>()[0].type, "a list of numbers");
  EXPECT_EQ(describe<Lists>()[0].default_value, "[0.5, 0.25]");
}

}  // namespace
}  // namespace tessera::config
