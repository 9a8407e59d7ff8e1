#pragma once
// What COCO's annotation files say of images: captions, and the kinds of objects in them.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tessera::data {

struct CocoImage {
  std::string file;                         // a plain file name; empty where no list of images has it
  std::map<int64_t, std::string> captions;  // by their numbers
  std::set<int64_t> categories;             // of CocoAnnotations::categories
};

struct CocoAnnotations {
  std::map<int64_t, CocoImage> images;
  std::map<int64_t, std::string> categories;  // names, a line each, all different
};

// Read captions_….json and instances_….json into `out`. Throw a data Error at `where`.
void read_coco_captions(std::string_view json, const std::string& where, CocoAnnotations& out);
void read_coco_objects(std::string_view json, const std::string& where, CocoAnnotations& out);

// A line of DIR/train2017.jsonl.
std::string coco_line(const std::string& split, const CocoImage& image, const CocoAnnotations& all, bool captions, bool labels);
// The categories in the order of their numbers, a line each.
std::string coco_classes(const CocoAnnotations& annotations);

}  // namespace tessera::data
