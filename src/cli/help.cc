#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::cli {
namespace {

constexpr size_t kWidth = 100;

// `text` after a column of `indent` blanks, broken between words.
std::string wrap(const std::string& text, size_t indent) {
  std::string out, line;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(' ', start), text.size());
    const std::string word = text.substr(start, end - start);
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    start = end + 1;
  }
  return out + line;
}

std::string example_lines(const std::vector<Example>& examples) {
  std::string text;
  for (const Example& example : examples) text += fmt::format("  {}\n      {}\n", example.command, example.meaning);
  return text;
}

std::string command_lines(const std::string& prefix) {
  size_t width = 0;
  for (const CommandEntry& entry : commands()) width = std::max(width, entry.name.size());
  std::string text;
  for (const CommandEntry& entry : commands()) {
    if (!entry.name.starts_with(prefix)) continue;
    const Page page = entry.make()->page();
    text += fmt::format("  {:<{}}  {}\n", page.name, width, page.summary);
  }
  return text;
}

std::string flag_lines(const Flags& flags, bool common) {
  constexpr size_t kColumn = 28;
  std::string text;
  for (const Flag& flag : flags.all()) {
    if (flag.common != common) continue;
    const std::string left =
        "  " + flag.name + (flag.placeholder.empty() || flag.placeholder[0] == '[' ? "" : " ") + flag.placeholder;
    const std::string help = flag.help + (flag.environment.empty() ? "" : fmt::format(" [{}]", flag.environment));
    // A long one has a line of its own.
    const std::string begin =
        left.size() < kColumn ? left + std::string(kColumn - left.size(), ' ') : left + "\n" + std::string(kColumn, ' ');
    text += fmt::format("{}{}\n", begin, wrap(help, kColumn));
  }
  return text;
}

}  // namespace

std::string short_help() {
  return "tessera trains vision models on any XLA device.\n\n" +
         example_lines({{"tessera train recipes/digits.toml", "train; the run goes to runs/digits-1"},
                        {"tessera predict --from runs/digits-1 image.png", "what the trained model sees in an image"}}) +
         "\nCommands:\n" + command_lines("") +
         "\nMore: tessera COMMAND --help, tessera help KEY (a recipe's keys), tessera --version";
}

std::string group_help(const std::string& group) {
  const std::string lines = command_lines(group + " ");
  return lines.empty() ? lines
                       : fmt::format("Commands of tessera {}:\n{}\nMore: tessera {} COMMAND --help", group, lines, group);
}

std::string command_help(const Page& page, const Flags& flags) {
  std::string text = fmt::format("tessera {}: {}\n\n", page.name, page.summary) + example_lines(page.examples);
  text += fmt::format("\nUsage: tessera {}{}{} [flags, in any order]\n", page.name, page.words.empty() ? "" : " ", page.words);
  const std::string own = flag_lines(flags, false);
  if (!own.empty()) text += "\nFlags [and the variables that set them]:\n" + own;
  text += "\nFlags of every command:\n" + flag_lines(flags, true);
  if (!page.more.empty()) text += "\n" + page.more + "\n";
  text.pop_back();
  return text;
}

}  // namespace tessera::cli
