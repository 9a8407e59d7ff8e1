#include "data/tools/prepare/coco_annotations.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "base/text/json_lists.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {

using Json = nlohmann::json;

int64_t number_in(const Json& element, const char* key, const std::string& where) {
  const auto found = element.find(key);
  if (found == element.end() || !found->is_number_integer())
    throw data_error(fmt::format("an element has no `{}`", key), where);
  try {
    return json_integer(*found, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  } catch (const Error& error) {
    throw data_error(fmt::format("an element has as its `{}` {}", key, error.message()), where);
  }
}
std::string text_in(const Json& element, const char* key, const std::string& where) {
  const auto found = element.find(key);
  if (found == element.end() || !found->is_string()) throw data_error(fmt::format("an element has no `{}`", key), where);
  return found->get<std::string>();
}

JsonList image_list(CocoAnnotations& out, const std::string& where) {
  return {"images", {"id", "file_name"}, [&out, where](Json&& image) {
            const std::string name = text_in(image, "file_name", where);
            // It becomes a path: 2014's are plain names, too.
            if (name.empty() || name.find('/') != std::string::npos || name.starts_with('.'))
              throw data_error(fmt::format("`{}` is no image's name", one_line(name)), where);
            out.images[number_in(image, "id", where)].file = name;
          }};
}

CocoImage& image_of(CocoAnnotations& out, const Json& annotation, const std::string& where) {
  return out.images[number_in(annotation, "image_id", where)];
}

// Its name is a line of the list of classes, which has it once.
void add_category(CocoAnnotations& out, std::map<std::string, int64_t>& by_name, const Json& category,
                  const std::string& where) {
  const std::string name = text_in(category, "name", where);
  if (name.empty() || name != trim(name) || name != one_line(name))
    throw data_error(fmt::format("`{}` is no category's name", one_line(name)), where);
  const int64_t id = number_in(category, "id", where);
  const int64_t first = by_name.try_emplace(name, id).first->second;
  if (first != id) throw data_error(fmt::format("the categories {} and {} are both called `{}`", first, id, name), where);
  if (!out.categories.try_emplace(id, name).second && out.categories[id] != name)
    throw data_error(fmt::format("the category {} is called `{}` and `{}`", id, out.categories[id], name), where);
}

}  // namespace

void read_coco_captions(std::string_view json, const std::string& where, CocoAnnotations& out) {
  read_json_lists(json, where,
                  {image_list(out, where), {"annotations", {"id", "image_id", "caption"}, [&](Json&& annotation) {
                                              image_of(out, annotation, where).captions[number_in(annotation, "id", where)] =
                                                  text_in(annotation, "caption", where);
                                            }}});
}

void read_coco_objects(std::string_view json, const std::string& where, CocoAnnotations& out) {
  std::map<std::string, int64_t> by_name;
  read_json_lists(json, where,
                  {image_list(out, where),
                   {"annotations",
                    {"image_id", "category_id"},
                    [&](Json&& annotation) {
                      image_of(out, annotation, where).categories.insert(number_in(annotation, "category_id", where));
                    }},
                   {"categories", {"id", "name"}, [&](Json&& category) { add_category(out, by_name, category, where); }}});
  for (const auto& [id, image] : out.images) {
    for (const int64_t category : image.categories) {
      if (!out.categories.contains(category))
        throw data_error(fmt::format("image {} has an object of category {}, which is none of its {} categories", id, category,
                                     out.categories.size()),
                         where);
    }
  }
}

std::string coco_line(const std::string& split, const CocoImage& image, const CocoAnnotations& all, bool captions,
                      bool labels) {
  nlohmann::ordered_json json = {{"image", fmt::format("{}/{}", split, image.file)}};
  if (captions) {
    json["captions"] = Json::array();
    for (const auto& [id, caption] : image.captions) json["captions"].push_back(std::string(trim(caption)));
  }
  if (labels) {
    json["labels"] = Json::array();
    for (const int64_t category : image.categories) json["labels"].push_back(all.categories.at(category));
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string coco_classes(const CocoAnnotations& annotations) {
  std::string text;
  for (const auto& [id, name] : annotations.categories) text += name + "\n";
  return text;
}

}  // namespace tessera::data
