// tessera completion: what a shell offers when Tab is pressed, from the tables that the program itself reads.
#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/help.h"
#include "evaluators/evaluator.h"
#include "models/family.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "optim/optimizer.h"
#include "recipe/keys.h"

namespace tessera::cli {
namespace {

using Words = std::vector<std::string>;

// Each asks the program, with the words up to the cursor, and falls back to names of files where it offers nothing.
constexpr std::string_view kBash = R"SH(# bash completion for tessera: eval "$(tessera completion bash)"
_tessera() {
  local line="${COMP_LINE:0:COMP_POINT}" candidate
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local current="${words[-1]}"
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    # bash takes what follows a = for a word of its own.
    [[ $current == *=* ]] && candidate="${candidate#*=}"
    COMPREPLY+=("$candidate")
  done < <("${words[0]}" completion candidates -- "${words[@]:1}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _tessera tessera)SH";

constexpr std::string_view kZsh = R"SH(#compdef tessera
# zsh completion for tessera: eval "$(tessera completion zsh)", or this as _tessera in a directory of fpath
_tessera() {
  local -a lines keys others
  local line
  lines=("${(@f)$("${words[1]}" completion candidates -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    [[ -z $line ]] && continue
    line="${line//:/\\:}"
    if [[ "${line%%$'\t'*}" == *= ]]; then keys+=("${line/$'\t'/:}"); else others+=("${line/$'\t'/:}"); fi
  done
  (( $#keys )) && _describe -t keys 'key of the recipe' keys -S ''
  (( $#others )) && _describe -t words 'tessera' others
  (( $#others )) || _files
}
if [[ "${funcstack[1]}" == _tessera ]]; then _tessera "$@"; else compdef _tessera tessera; fi)SH";

constexpr std::string_view kFish = R"SH(# fish completion for tessera: tessera completion fish | source
function __tessera_candidates
    set -l words (commandline -opc) (commandline -ct)
    $words[1] completion candidates -- $words[2..-1] 2>/dev/null
end
complete -c tessera -a '(__tessera_candidates)')SH";

struct Candidate {
  std::string word, help;
};
using Candidates = std::vector<Candidate>;

// Of the family that a word before names, or of all.
Words variants(const Words& before) {
  Words names;
  for (const models::Family* family : models::families()) {
    const auto names_family = [&](const std::string& word) {
      return word == fmt::format("model.name={}", family->name) || word == fmt::format("model={}", family->name);
    };
    Words own;
    for (const models::NamedVariant& variant : models::named_variants(*family)) own.push_back(variant.name);
    if (std::ranges::any_of(before, names_family)) return own;
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

// Texts that a key of a recipe takes one of.
Words key_values(const std::string& name, const Words& before) {
  const auto named = [](const auto& kinds) {
    Words names;
    for (const auto* kind : kinds) names.push_back(kind->name);
    return names;
  };
  if (name == "model.variant") return variants(before);
  if (name == "model.name" || name == "model") return models::model_names();
  if (name == "objective.name" || name == "objective") return named(objectives::objective_kinds());
  if (name == "optimizer.name") return named(optim::optimizer_kinds());
  if (name.starts_with("eval.") && name.ends_with(".type")) return named(evaluators::evaluator_kinds());
  if (name == "dtype") return {"f32", "bf16"};
  for (const recipe::SectionKeys& section : recipe::recipe_keys()) {
    for (const config::KeyDoc& doc : section.keys) {
      if (doc.key == recipe::with_placeholder(name) && doc.type == "true or false") return {"true", "false"};
    }
  }
  return {};
}

void add_command_words(const Words& before, Candidates& out) {
  for (const CommandEntry& entry : commands()) {
    const Words parts = split(std::string(entry.name), ' ');
    if (parts.size() <= before.size() || !std::equal(before.begin(), before.end(), parts.begin())) continue;
    const std::string& word = parts[before.size()];
    if (std::ranges::find(out, word, &Candidate::word) != out.end()) continue;
    const bool last = parts.size() == before.size() + 1;
    out.push_back({word, last ? entry.make()->page().summary : ""});
  }
}

// Whether its value is a word of its own.
bool takes_word(const Flag& flag) { return !flag.placeholder.empty() && flag.placeholder[0] != '['; }

// With its value, where `current` has begun one: --platform=cpu.
void add_flags(const Flags& flags, const std::string& current, Candidates& out) {
  if (const size_t equals = current.find('='); equals != std::string::npos) {
    const auto flag = std::ranges::find(flags.all(), current.substr(0, equals), &Flag::name);
    if (flag == flags.all().end()) return;
    for (const std::string& value : flag->values) out.push_back({fmt::format("{}={}", flag->name, value), ""});
    return;
  }
  for (const Flag& flag : flags.all()) out.push_back({flag.name, flag.help});
}

// eval.NAME.every is eval.val.every where `current` has that name and a dot behind it; empty where it has none.
std::string with_name_of(const std::string& current, const std::string& key) {
  Words parts = split(key, '.');
  const Words typed = split(current, '.');
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != "NAME") continue;
    if (i + 1 >= typed.size() || typed[i].empty()) return "";
    parts[i] = typed[i];
  }
  return join(parts, ".");
}

void add_keys(const std::string& current, const Words& before, Candidates& out) {
  if (const size_t equals = current.find('='); equals != std::string::npos) {
    const std::string key = current.substr(0, equals);
    for (const std::string& value : key_values(key, before)) out.push_back({fmt::format("{}={}", key, value), ""});
    return;
  }
  for (const recipe::SectionKeys& section : recipe::recipe_keys()) {
    for (const config::KeyDoc& doc : section.keys) {
      const std::string key = with_name_of(current, doc.key);
      const bool known = std::ranges::find(out, key + "=", &Candidate::word) != out.end();
      if (!key.empty() && !known) out.push_back({key + "=", doc.help});
    }
  }
  out.push_back({"lr=", "the rate of the schedule optimizer.lr"});  // cli/rate_setting.h
}

// Whether a word of the command stands in `before`, as RECIPE is the first one of `train`, and no flag or a flag's value.
bool has_word(const Flags& flags, const Words& before, const std::string& command) {
  for (size_t i = split(command, ' ').size(); i < before.size(); ++i) {
    if (!before[i].starts_with("-")) return true;
    const auto flag = std::ranges::find(flags.all(), before[i], &Flag::name);
    if (flag != flags.all().end() && takes_word(*flag)) ++i;
  }
  return false;
}

// What may stand in place of the last of `words`, which the cursor is in.
Candidates candidates(const Words& words) {
  const std::string current = words.empty() ? "" : words.back();
  const Words before(words.begin(), words.end() - (words.empty() ? 0 : 1));
  Candidates out;
  const CommandEntry* entry = nullptr;
  for (const CommandEntry& one : commands()) {
    const Words parts = split(std::string(one.name), ' ');
    if (parts.size() <= before.size() && std::equal(parts.begin(), parts.end(), before.begin())) entry = &one;
  }
  if (entry == nullptr) {
    add_command_words(before, out);
  } else {
    const std::unique_ptr<Command> command = entry->make();
    Flags flags;
    CommonFlags common;
    command->declare(flags);
    declare_common_flags(flags, common);
    const auto flag = std::ranges::find(flags.all(), before.back(), &Flag::name);
    const Page page = command->page();
    // A path comes first, which the shell knows.
    const bool begins = page.words.starts_with("RECIPE") || page.words.starts_with("FOLDER");
    if (flag != flags.all().end() && takes_word(*flag)) {
      for (const std::string& value : flag->values) out.push_back({value, ""});
    } else if (current.starts_with("-")) {
      add_flags(flags, current, out);
    } else if (page.words.find("key=value") != std::string::npos) {
      if (!begins || has_word(flags, before, page.name)) add_keys(current, before, out);
    } else if (page.name == "help") {
      for (const std::string& topic : help_topics()) out.push_back({topic, ""});
    } else if (page.name == "models") {
      for (const std::string& name : models::model_names()) out.push_back({name, ""});
    } else if (page.name == "completion") {
      for (const char* shell : {"bash", "zsh", "fish"}) out.push_back({shell, ""});
    }
  }
  std::erase_if(out, [&](const Candidate& one) { return !one.word.starts_with(current); });
  return out;
}

class Completion final : public Command {
 public:
  Page page() const override {
    return {
        "completion",
        "bash|zsh|fish",
        "what a shell needs to complete commands, flags and keys",
        {{"tessera completion bash > ~/.local/share/bash-completion/completions/tessera", "for every bash from now on"},
         {"tessera completion fish | source", "for this fish; zsh: eval \"$(tessera completion zsh)\""}},
        "The script asks the program, `tessera completion candidates -- WORDS…`, so that it fits the version that is there."};
  }
  Exit run(const Words& words, const train::DeviceOptions&) override {
    const std::string what = words.empty() ? "" : words[0];
    if (what == "candidates") {
      for (const Candidate& one : candidates({words.begin() + 1, words.end()})) print(one.word + "\t" + one.help);
      return Exit::kDone;
    }
    reject_extra(words, 1, "completion");
    for (const auto& [shell, script] : {std::pair{"bash", kBash}, std::pair{"zsh", kZsh}, std::pair{"fish", kFish}}) {
      if (what != shell) continue;
      print(script);
      return Exit::kDone;
    }
    throw usage_error(
        what.empty() ? "tessera completion needs the name of a shell" : fmt::format("no completion for `{}`", what), {},
        "bash, zsh or fish");
  }
};

}  // namespace

const CommandEntry kCompletion = command_entry<Completion>("completion");

}  // namespace tessera::cli
