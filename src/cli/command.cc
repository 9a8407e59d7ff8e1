#include "cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "cli/crash.h"
#include "cli/rate_setting.h"
#include "recipe/weights_chain.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"
#include "store/url.h"

namespace tessera::cli {

const std::vector<CommandEntry>& commands() {
  static const std::vector<CommandEntry> table = {
#define COMMAND(object) object,
#include "cli/commands.def"
#undef COMMAND
  };
  return table;
}

namespace {

// `key=value` with a dotted key; a path that holds '=' has a '/' before it, or can be given one.
bool is_override(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  return word.substr(0, equals).find_first_of("/ ") == std::string_view::npos;
}

}  // namespace

RecipeWords recipe_words(const std::vector<std::string>& words, std::string_view command) {
  RecipeWords out;
  for (const std::string& word : words) {
    if (is_override(word)) {
      out.overrides.push_back(word);
    } else if (out.path.empty()) {
      out.path = word;
    } else {
      throw usage_error(fmt::format("`{}` is one word too many: the recipe is `{}` already", word, out.path), {},
                        fmt::format("settings are written key=value; tessera {} --help", command));
    }
  }
  if (out.path.empty()) {
    throw usage_error(fmt::format("tessera {} needs a recipe", command), {},
                      fmt::format("tessera {} recipes/digits.toml", command));
  }
  return out;
}

namespace {

config::Section recipe_at(const RecipeWords& words) {
  if (!store::is_remote(words.path)) return config::load_recipe(words.path, words.overrides);
  const std::string text = store::read_small_file(store::files_at(words.path), words.path);
  return config::parse_recipe(text, words.path, words.overrides);
}

}  // namespace

config::Section load_recipe(const RecipeWords& words) {
  crash_context().recipe = words.path;
  config::Section recipe = read_with_rate(words.overrides, [&](const std::vector<std::string>& settings) {
    return recipe_at({words.path, settings});
  });
  recipe::take_weights_chains(recipe);
  return recipe;
}

void require_flag(const std::string& value, std::string_view flag, std::string_view example) {
  if (value.empty()) throw usage_error(fmt::format("`{}` is missing", flag), {}, std::string(example));
}

void reject_extra(const std::vector<std::string>& words, size_t count, std::string_view command) {
  if (words.size() <= count) return;
  throw usage_error(fmt::format("`{}` is one word too many", words[count]), {}, fmt::format("tessera {} --help", command));
}

namespace {

// False when nobody reads any more.
bool write_line(std::string line) {
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    const ssize_t wrote = ::write(STDOUT_FILENO, line.data() + done, line.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EPIPE) return false;
    if (wrote < 0) throw data_error("cannot write the result to stdout: " + std::string(strerror(errno)));
    done += static_cast<size_t>(wrote);
  }
  return true;
}

}  // namespace

void print(std::string_view text) {
  if (!write_line(printable(text))) std::_Exit(0);
}

void print_if_read(std::string_view text) {
  try {
    write_line(printable(text));
  } catch (const Error& error) {
    log_warning(error.message());
  }
}

void print_json_text(std::string_view dumped) {
  if (!write_line(printable_json(dumped))) std::_Exit(0);
}

void print_json(const nlohmann::ordered_json& json) {
  print_json_text(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace tessera::cli
