#pragma once
// Flags of the process: `--name`, `--name VALUE`, `--name=VALUE`, anywhere on the command line. Every flag can be set by an
// environment variable of its name too (--work-dir: TESSERA_WORK_DIR); the command line wins.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::cli {

struct Flag {
  std::string name;  // "--workdir"
  std::string
      placeholder;  // of the value, as "DIR"; empty: the flag takes none; "[=ADDRESS]": it may be left out, and is empty
  std::string help;
  std::string environment;          // "TESSERA_WORKDIR"; empty: none
  bool read_environment = true;     // false: whoever uses the value reads the variable too
  bool common = false;              // one of every command's
  bool once = false;                // a second one on the command line is an error; of others the last one counts
  std::vector<std::string> values;  // of a OneOf, which a shell completes; empty: any
  std::function<void(const std::string& value)> set;
};

// The texts that a flag takes one of. Its help begins with them; whoever uses the value refuses others.
struct OneOf {
  std::vector<std::string> texts;
};
std::string listed(const OneOf& values);  // "timm, hugging_face or stablehlo"

// The whole numbers that a flag takes. What memory, threads or files are made of needs `most`, so that a typing error takes
// none.
struct Bounds {
  Bounds(int64_t at_least, int64_t at_most = INT64_MAX) : least(at_least), most(at_most) {}
  int64_t least, most;
};

class Flags {
 public:
  // `target` keeps its value where the flag is not given, and must outlive this. A number out of its bounds is a usage Error.
  Flag& add(std::string name, bool* target, std::string help);
  Flag& add(std::string name, std::string placeholder, std::string* target, std::string help);
  Flag& add(std::string name, std::string placeholder, int64_t* target, Bounds bounds, std::string help);
  Flag& add(std::string name, std::string placeholder, std::optional<int64_t>* target, Bounds bounds, std::string help);
  // `more` is what help says behind the values: ", of products; as trained when not given".
  Flag& add(std::string name, std::string placeholder, std::string* target, OneOf values, const std::string& more);
  Flag& add(std::string name, std::string placeholder, std::function<void(const std::string&)> set, OneOf values,
            const std::string& more);
  // For everything else: `set` may throw a usage Error.
  Flag& add(std::string name, std::string placeholder, std::function<void(const std::string&)> set, std::string help);

  // Sets what the environment sets (a variable that is empty counts as unset).
  void read_environment() const;
  // Consumes words of `args` from `position` on: flags are applied, other words returned. With `first_word`, stops at the first
  // word that is no flag, and `position` is left there; else reads all, and takes every word after "--" as no flag. An unknown
  // flag is a usage Error that names the nearest, and so is a second one of those that are given once.
  std::vector<std::string> parse(const std::vector<std::string>& args, size_t& position, bool first_word = false);
  // The flags that parse() read, in their order and as a shell takes them, without those named `except`: " --devices 2 --quiet".
  // For the command that goes on with a run.
  std::string given(const std::vector<std::string_view>& except) const;

  // Sets a function that gives the help for an unknown flag; where it gives an empty text, help suggests the nearest name.
  void explain_unknown(std::function<std::string(const std::string& name)> explain) { explain_ = std::move(explain); }

  // From now on parse() returns unknown flags as words, in their places.
  void pass_unknown() { pass_unknown_ = true; }

  const std::vector<Flag>& all() const { return flags_; }

 private:
  const Flag& find(const std::string& name) const;
  std::vector<Flag> flags_;
  std::vector<std::pair<std::string, std::string>> given_;  // the name, and its words for a shell
  std::function<std::string(const std::string&)> explain_;
  bool pass_unknown_ = false;
};

}  // namespace tessera::cli
