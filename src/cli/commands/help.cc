// tessera help: the keys of a recipe, and the pages of commands.
#include "cli/help.h"

#include <algorithm>

#include "base/text/text.h"
#include "cli/common_flags.h"

namespace tessera::cli {
namespace {

class Help final : public Command {
 public:
  Page page() const override {
    return {"help",
            "[KEY|COMMAND]",
            "what a recipe's keys mean",
            {{"tessera help optimizer", "all keys of a section"},
             {"tessera help data.pp", "one key"},
             {"tessera help cosine", "a schedule; so models, optimizers, objectives, evaluators, sources and steps of data.pp"},
             {"tessera help --man > tessera.1", "the manual: man ./tessera.1"},
             {"tessera help --markdown", "all keys as tables: docs/keys.md"}},
            ""};
  }
  void declare(Flags& flags) override {
    flags.add("--man", &man_, "all of it as a page for man");
    flags.add("--markdown", &markdown_, "all keys of a recipe, and what they may name, as Markdown");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    if (man_ || markdown_) {
      reject_extra(words, 0, "help");
      print(man_ ? man_page() : keys_page());
      return Exit::kDone;
    }
    const std::string name = join(words, " ");
    std::string dashes = name;  // lr_find, as others have it; no key is called like a command
    std::ranges::replace(dashes, '_', '-');
    for (const CommandEntry& entry : commands()) {
      if (entry.name != name && entry.name != dashes) continue;
      const auto command = entry.make();
      Flags flags;
      CommonFlags common;
      command->declare(flags);
      declare_common_flags(flags, common);
      print(command_help(command->page(), flags));
      return Exit::kDone;
    }
    reject_extra(words, 1, "help");
    print(key_help(name));
    return Exit::kDone;
  }

 private:
  bool man_ = false, markdown_ = false;
};

}  // namespace

const CommandEntry kHelp = command_entry<Help>("help");

}  // namespace tessera::cli
