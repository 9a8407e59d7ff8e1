#include "recipe/translate/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <set>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "store/file.h"
#include "store/small_file.h"
#include "store/url.h"

namespace tessera::translate {
namespace {

// More than any command line has. A name may stand for a list that another has, so that few bytes would make many values.
constexpr int64_t kMaxBytes = 1 << 20;
constexpr size_t kMaxValues = 1000;

std::string place(const std::string& path, const YAML::Mark& mark) { return fmt::format("{}:{}", path, mark.line + 1); }

// Whether another document follows the first. At the beginning of a line `---` and `...` are what begins and ends one, and nothing
// else.
bool holds_several(std::string_view text) {
  bool begun = false, ended = false;
  for (const std::string& line : split(text, '\n')) {
    const std::string_view word = std::string_view(line).substr(0, line.find_first_of(" \t\r"));
    const std::string_view content = trim(line);
    if (word == "---") {
      if (begun) return true;
      begun = true;
    } else if (word == "...") {
      ended = begun;
    } else if (!content.empty() && content[0] != '#' && (begun || content[0] != '%')) {
      if (ended) return true;
      begun = true;
    }
  }
  return false;
}

std::string scalar_of(const YAML::Node& node, const std::string& where) {
  if (!node.IsScalar()) throw usage_error("a value in a list must be a number or text", where);
  // Quoted text is text; true and false have more spellings in YAML.
  bool flag = false;
  const std::string& text = node.Scalar();
  const bool number =
      !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
  if (node.Tag() == "?" && !number && YAML::convert<bool>::decode(node, flag)) return flag ? "true" : "false";
  return text;
}

std::vector<std::string> values_of(const YAML::Node& node, const std::string& where) {
  if (node.IsNull()) return {};
  if (node.size() > kMaxValues) throw usage_error(fmt::format("a name has more than {} values", kMaxValues), where);
  std::vector<std::string> values;
  if (node.IsScalar()) {
    values.push_back(scalar_of(node, where));
  } else if (node.IsSequence()) {
    for (const YAML::Node& item : node) values.push_back(scalar_of(item, where));
  } else {
    for (const auto& item : node) values.push_back(scalar_of(item.first, where) + "=" + scalar_of(item.second, where));
  }
  return values;
}

}  // namespace

void read_yaml(const std::string& path, Arguments& arguments) {
  store::refuse_url(path);
  const std::string text = store::read_small_file(store::local_files(), path, kMaxBytes);
  YAML::Node root;
  try {
    // LoadAll() does not end on some damaged files: it adds documents until memory runs out.
    root = YAML::Load(text);
  } catch (const YAML::DeepRecursion& error) {  // "bad file"
    throw usage_error("the file nests too deep", place(path, error.mark), "batch_size: 256");
  } catch (const YAML::Exception& error) {
    throw usage_error("this is no YAML: " + error.msg, place(path, error.mark));
  }
  // PyYAML refuses several, and so does timm.
  if (holds_several(text)) throw usage_error("the file holds several documents", path, "timm reads one: divide it at `---`");
  if (root.IsNull()) return;
  if (!root.IsMap()) throw usage_error("the file must hold `name: value` lines", path, "batch_size: 256");
  std::set<std::string> names;
  for (const auto& item : root) {
    const std::string where = place(path, item.first.Mark());
    if (!item.first.IsScalar()) throw usage_error("a name must be text", where);
    // PyYAML takes the last, and so would timm.
    if (!names.insert(item.first.Scalar()).second)
      throw usage_error(fmt::format("`{}` is there twice", one_line(item.first.Scalar())), where);
    arguments.set_default(item.first.Scalar(), values_of(item.second, where), where);
  }
}

}  // namespace tessera::translate
