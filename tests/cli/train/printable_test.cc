// Names of files and classes that others chose, in what every command writes: no escape sequence reaches the terminal, and no
// name looks like a line of the program's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A title, a clear screen, a C1 control, a turned direction and a line that looks like an error.
const std::string kHostile = "a\033]0;owned\a\033[2J\u009b31m\u202e\nerror: all is lost";
// What a user types is shown with its line ends.
const std::string kWord = kHostile.substr(0, kHostile.find('\n'));
const std::string kClass = kHostile + "_class";

void expect_harmless(const std::string& text, const std::string& what) {
  SCOPED_TRACE(what);
  for (const std::string sequence : {"\033", "\a", "\u009b", "\u202e"}) EXPECT_THAT(text, Not(HasSubstr(sequence)));
  EXPECT_THAT("\n" + text, Not(HasSubstr("\nerror: all is lost")));
}

class Hostile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    for (const char* set : {"train", "val"}) {
      for (int i = 0; i < 4; ++i) {
        write_image(*folder_ / set / kClass / (kHostile + std::to_string(i) + ".png"), 0, i);
        write_image(*folder_ / set / "right" / (std::to_string(i) + ".png"), 1, i);
      }
    }
    write_file(*folder_ / "bad" / kClass / (kHostile + ".png"), "no image");
    write_image(*folder_ / "bad" / "right" / "0.png", 1, 0);
    fs::copy_file(*folder_ / "bad/right/0.png", *folder_ / "bad" / kClass / (kHostile + "_twin.png"));
    write_file(*folder_ / "tiny.toml", tiny_recipe());
  }
  static void TearDownTestSuite() { delete folder_; }

  // Runs the command; both outputs are harmless.
  static Outcome run(const std::vector<std::string>& words, int exit) {
    Outcome outcome = run_program(words, folder_->path());
    EXPECT_EQ(outcome.exit, exit) << outcome.err;
    expect_harmless(outcome.out, "stdout of " + words[0] + " " + words[1]);
    expect_harmless(outcome.err, "stderr of " + words[0] + " " + words[1]);
    return outcome;
  }

  static TempFolder* folder_;
};

TempFolder* Hostile::folder_ = nullptr;

TEST_F(Hostile, NamesAreEscapedInEveryCommandsOutput) {
  const Outcome checked = run({"data", "check", "bad"}, 3);
  EXPECT_THAT(checked.out, AllOf(HasSubstr(R"(a\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\nerror: all is lost)"),
                                 HasSubstr("the same picture in several classes")));
  run({"data", "index", "bad"}, 0);
  run({"data", "show", "tiny.toml"}, 0);
  run({"data", "bench", "tiny.toml", "--seconds", "1"}, 0);
  run({"train", "tiny.toml", "--workdir", "run"}, 0);
  run({"eval", "tiny.toml", "--from", "run"}, 0);
  EXPECT_THAT(run({"predict", "--from", "run", "bad"}, 3).out, HasSubstr(R"(all is lost_class)"));
  run({"report", "run"}, 0);
  run({"fine-tune", "train", "--from", "run", "--print-recipe"}, 0);
  run({"lr-find", "tiny.toml", "--steps", "20"}, 0);
  run({"sweep", "tiny.toml", "optimizer.lr=1e-2,1e-3", "--workdir", "sweep"}, 0);
  run({"export", "--from", "run", "--to", "out"}, 0);
  run({"data", "convert", "bad", "--to", "tar", "--out", "set"}, 2);
  run({"train", "tiny.toml", "data.source=folder(" + kWord + ")"}, 2);
  run({"predict", "--from", kHostile, "bad"}, 2);
  run({kWord, "x"}, 2);
}

// Where the message is what names a file, a class or a key.
TEST_F(Hostile, NamesAreEscapedInErrors) {
  const std::string shown = R"(\nerror: all is lost)";
  for (int i = 0; i < 4; ++i) {
    write_file(*folder_ / "worse" / kClass / (kHostile + std::to_string(i) + ".png"), "no image");
    write_image(*folder_ / "worse" / "right" / (std::to_string(i) + ".png"), 1, i);
  }
  const std::vector<std::string> worse = {"train",       "tiny.toml", "--workdir", "worse_run", "data.source=folder(worse)",
                                          "data.batch=2"};
  EXPECT_THAT(run(worse, 3).err, AllOf(HasSubstr("can't be read, more than 1 %; the last is `a"), HasSubstr(shown)));
  EXPECT_THAT(read_file(*folder_ / "worse_run/log.txt"), Not(HasSubstr("\nerror: all is lost")));
  std::vector<std::string> strict = worse;
  strict[3] = "strict_run";
  strict.emplace_back("data.on_error=error");
  EXPECT_THAT(run(strict, 3).err, AllOf(HasSubstr("cannot read `worse/a"), HasSubstr(shown)));
  EXPECT_THAT(run({"data", "check", "part(folder(val), train, 99 %)"}, 3).err,
              AllOf(HasSubstr("has no training images"), HasSubstr(shown)));
  write_file(*folder_ / "keys.jsonl", Json({{"image", "val/right/0.png"}, {kHostile, 1}}).dump() + "\n");
  EXPECT_THAT(run({"data", "check", "jsonl(keys.jsonl, text=nothing)"}, 3).err, AllOf(HasSubstr("known: "), HasSubstr(shown)));
}

// Machines get what is there: JSON's own escapes, so that the values are the names.
TEST_F(Hostile, JsonKeepsNames) {
  const Outcome checked = run({"data", "check", "bad", "--json"}, 3);
  const Json source = checked.json().at(0)["sources"][0];
  EXPECT_EQ(source["classes"][0]["name"], kClass);
  EXPECT_EQ(source["unreadable"][0]["path"], "bad/" + kClass + "/" + kHostile + ".png");
  run({"train", "tiny.toml", "--workdir", "json_run"}, 0);
  const Outcome predicted = run({"predict", "--from", "json_run", "val/" + kClass, "--json"}, 0);
  ASSERT_EQ(predicted.json().size(), 4u);
  EXPECT_EQ(predicted.json()[0]["path"], "val/" + kClass + "/" + kHostile + "0.png");
}

TEST_F(Hostile, BytesThatAreNoUtf8AreNoBug) {
  write_image(*folder_ / "latin" / "left" / "caf\xe9.png", 0, 1);
  write_image(*folder_ / "latin" / "right" / "\x9b.png", 1, 1);
  EXPECT_THAT(run({"predict", "--from", "no_run", "latin/left/caf\xe9.png"}, 2).err, HasSubstr("no_run"));
  run({"data", "check", "latin"}, 0);
  run({"train", "tiny.toml", "--workdir", "latin_run", "data.source=folder(latin)", "eval.val.data.source=folder(latin)",
       "data.batch=2", "eval.val.batch=2"},
      0);
  EXPECT_THAT(run({"predict", "--from", "latin_run", "latin"}, 0).out,
              AllOf(HasSubstr(R"(caf\xe9.png)"), HasSubstr(R"(\x9b.png)")));
  EXPECT_EQ(run({"predict", "--from", "latin_run", "latin", "--json"}, 0).json().size(), 2u);
  EXPECT_EQ(run({"predict", "--from", "latin_run", "gone\xe9.png", "--json"}, 3).json().size(), 1u);
}

}  // namespace
}  // namespace tessera::cli
