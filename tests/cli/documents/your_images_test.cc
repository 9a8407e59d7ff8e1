// The commands of docs/your_images.md, run as they stand.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <sstream>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

// Lines of blocks of shell commands.
std::vector<std::string> commands_in(const std::string& document) {
  std::vector<std::string> found;
  std::istringstream lines(document);
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      in_block = line == "```sh";
    } else if (in_block) {
      found.push_back(line);
    }
  }
  return found;
}

// Every line of docs/your_images.md in order, on small images: `total`, sizes and the model are made small, the rest is as it stands.
TEST(YourImages, RunsAsItStands) {
  const TempFolder folder;
  for (int i = 0; i < 12; ++i) {
    write_image(folder / "photos/barn_owl" / fmt::format("{:04}.jpg", i), 0, i);
    write_image(folder / "photos/tawny_owl" / fmt::format("{:04}.jpg", i), 1, i);
    write_image(folder / "new_photos" / fmt::format("{}.png", i), i % 2, i);
  }
  const std::string text = read_file(testing::source_path("docs/your_images.md"));
  const size_t begin = text.find("```toml\n") + 8;
  write_file(folder / "photos.toml", text.substr(begin, text.find("```", begin) - begin));
  const std::string small =
      " \"total=6 steps\" data.batch=4 model.depths=[1,1,1,1] model.dims=[8,8,8,8] \"data.pp=decode | random_resized_crop(32) "
      "| "
      "normalise\" \"eval.val.data.pp=decode | resize_small(36) | central_crop(32) | normalise\" \"checkpoint.every=3 steps\"";
  int64_t lines = 0;
  for (std::string line : commands_in(text)) {
    ++lines;
    std::istringstream stream(line);
    const std::vector<std::string> words(std::istream_iterator<std::string>(stream), {});
    if (words[1] == "train" || words[1] == "sweep" || words[1] == "lr-find" || words[1] == "eval" || words[2] == "show")
      line += small;
    if (words[1] == "lr-find") line += " --steps 20";
    const std::string command = fmt::format("cd '{}' && PATH='{}':$PATH {} > out 2> err", folder.path().string(),
                                            fs::path(testing::program_path()).parent_path().string(),
                                            line.find('>') == std::string::npos ? line : line.substr(0, line.find('>')));
    ASSERT_EQ(std::system(command.c_str()), 0) << line << "\n" << read_file(folder / "err");
  }
  EXPECT_GE(lines, 11);
  for (const char* made :
       {"sheet.png", "runs/photos/report/index.html", "runs/photos/summary.csv", "photos_timm/config.json"}) {
    EXPECT_TRUE(fs::exists(folder / made)) << made;
  }
  // Every file that the page lists is there.
  for (const char* listed : {"checkpoints", "recipe.toml", "metrics.jsonl", "plot.svg", "evals", "tb", "log.txt", "run.json"}) {
    EXPECT_TRUE(fs::exists(folder / "runs/photos" / listed)) << listed;
  }
}

}  // namespace
}  // namespace tessera::cli
