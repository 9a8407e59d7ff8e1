// tessera data prepare, as a user calls it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/archives.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DataPrepare, MakesASetThatTrains) {
  const TempFolder folder;
  write_imagenet_archives(folder / "from");
  const Outcome dry = run_program({"data", "prepare", "imagenet", "set", "--from", "from", "--dry-run"}, folder.path());
  EXPECT_EQ(dry.exit, 0) << dry.err;
  EXPECT_THAT(dry.out,
              AllOf(HasSubstr("set/train   "), HasSubstr("set/val   "), HasSubstr("needs about "), HasSubstr(" left")));
  EXPECT_THAT(dry.err,
              AllOf(HasSubstr("from/train.tar   training images of 2 classes"), HasSubstr("2 labels of validation images"),
                    HasSubstr("and the published ILSVRC2012_img_train.tar 147,897,477,120")));
  EXPECT_FALSE(fs::exists(folder / "set"));

  const Outcome made = run_program({"data", "prepare", "imagenet", "set", "--from", "from"}, folder.path());
  EXPECT_EQ(made.exit, 0) << made.err;
  EXPECT_EQ(made.out, "source = \"folder(set/train)\"\nsource = \"folder(set/val)\"\n");
  EXPECT_THAT(made.err,
              AllOf(HasSubstr("set/train   4 files of 2 classes"), HasSubstr("note: 4 training images, of the 1,281,167")));
  EXPECT_TRUE(fs::exists(folder / "set/val/n01440764/ILSVRC2012_val_00000002.JPEG"));
  EXPECT_EQ(run_program({"data", "check", "set/train"}, folder.path()).exit, 0);

  const Json again =
      run_program({"data", "prepare", "imagenet", "set", "--from", "from/train.tar", "--json", "--verify"}, folder.path())
          .json()
          .at(0);
  EXPECT_EQ(again["folders"][0]["written"], 0);
  EXPECT_EQ(again["folders"][0]["files"], 4);
}

// Killed at any time, the same command ends with the same set. (tests/data kill it at every operation.)
TEST(DataPrepare, GoesOnAfterAKill) {
  const TempFolder folder;
  write_imagenet_archives(folder / "from");
  const std::vector<std::string> command = {"data", "prepare", "imagenet", "set", "--from", "from", "--threads", "1"};
  for (int milliseconds = 0; milliseconds < 60; milliseconds += 4) {
    fs::remove_all(folder / "set");
    {
      RunningProgram program(command, folder.path());
      ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
      program.send(SIGKILL);
      program.wait();
    }
    if (fs::exists(folder / "set/train")) {
      EXPECT_EQ(std::distance(fs::recursive_directory_iterator(folder / "set/train"), fs::recursive_directory_iterator()), 6);
    }
    const Outcome outcome = run_program(command, folder.path());
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_EQ(std::distance(fs::recursive_directory_iterator(folder / "set/train"), fs::recursive_directory_iterator()), 6);
    EXPECT_FALSE(fs::exists(folder / "set/train.partial"));
    EXPECT_FALSE(fs::exists(folder / "set/train.finished"));
  }
}

TEST(DataPrepare, SaysWhatIsWrongWithACommand) {
  const TempFolder folder;
  write_imagenet_archives(folder / "from");
  const auto says = [&](const std::vector<std::string>& words, int exit, const std::string& text) {
    std::vector<std::string> all = {"data", "prepare"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run_program(all, folder.path());
    EXPECT_EQ(outcome.exit, exit);
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  says({}, 2, "takes a set and a directory");
  says({"imagnet", "set", "--from", "from"}, 2, "unknown set `imagnet`\nhelp: did you mean `imagenet`?");
  says({"imagenet", "set"}, 2, "--from");
  says({"imagenet", "--from", "from/train.tar", "from/val.tar", "set"}, 2,
       "`from/val.tar` is a file\nhelp: the directory comes first");
  says({"imagenet", "set", "--from", "nowhere"}, 2, "there is no `nowhere`\n  --> --from");
  says({"imagenet", "set", "--from", "from/val.tar"}, 2, "the validation images have no labels");
  says({"coco", "set", "--from", "from/train.tar"}, 2, "`from/train.tar` is none of COCO's archives");
  write_file(folder / "from/cut.tar", read_file(folder / "from/train.tar").substr(0, 3000));
  says({"imagenet", "set", "--from", "from/cut.tar"}, 3, "a member is cut short");
  says({"imagenet", "set", "--from", "from/val.tar", "from/LOC_val_solution.csv", "--checksums"}, 3, "its MD5 is ");
  EXPECT_FALSE(fs::exists(folder / "set"));
}

}  // namespace
}  // namespace tessera::cli
