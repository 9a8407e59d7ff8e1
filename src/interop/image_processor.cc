#include "interop/image_processor.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "models/timm_args.h"

namespace tessera::interop {
namespace {

// By Pillow's numbers.
constexpr std::string_view kPillowFilters[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"};

// What they do where a file is silent.
struct Processor {
  std::string_view name;
  int64_t size;
  bool crops;
  int64_t resample;
};
constexpr Processor kProcessors[] = {{"ViT", 224, false, 2}, {"DeiT", 256, true, 3}, {"ConvNext", 384, false, 3}};
constexpr int64_t kCropSize = 224;
// ConvNeXt's crops only where the size is smaller.
constexpr int64_t kConvNextWhole = 384;

class ProcessorReader {
 public:
  ProcessorReader(std::string_view json, const std::string& where) : root_(models::parse_object(json, where)), where_(where) {}

  TimmPreprocessing read() {
    const Processor& kind = processor();
    for (const char* key : {"do_resize", "do_rescale"}) {
      if (!models::get(root_, key, true, where_)) bad(key, "true");
    }
    if (std::abs(models::get(root_, "rescale_factor", 1.0 / 255, where_) * 255 - 1) > 1e-6) bad("rescale_factor", "1 / 255");
    if (kind.name == "ConvNext") {
      convnext_sizes(kind);
    } else {
      sizes(kind);
    }
    p_.crop_down = p_.crop_mode != "squash" || p_.crop_pct != 1;
    values(kind);
    return p_;
  }

 private:
  struct Sides {
    int64_t height = 0, width = 0;
  };

  [[noreturn]] void bad(const char* key, const std::string& wanted) const {
    models::bad_entry(key, root_.value(key, models::Json()), wanted, where_);
  }

  // "DeiTImageProcessorFast", "DeiTFeatureExtractor" of old: DeiT's.
  const Processor& processor() const {
    const char* key = root_.contains("image_processor_type") ? "image_processor_type" : "feature_extractor_type";
    const auto type = models::get<std::string>(root_, key, "ViTImageProcessor", where_);
    const std::string_view name =
        std::string_view(type).substr(0, std::min(type.find("ImageProcessor"), type.find("FeatureExtractor")));
    const auto found = std::ranges::find(kProcessors, name, &Processor::name);
    if (found == std::end(kProcessors)) bad(key, "ViTImageProcessor, DeiTImageProcessor or ConvNextImageProcessor");
    return *found;
  }

  // A number is of both sides.
  Sides sides(const char* key, int64_t fallback) const {
    const models::Json size = root_.value(key, models::Json());
    Sides sides;
    if (size.is_object()) {
      sides = {models::get<int64_t>(size, "height", 0, where_), models::get<int64_t>(size, "width", 0, where_)};
    } else {
      std::tie(sides.height, sides.width) = models::get_image_size(root_, key, {fallback, fallback}, where_);
    }
    if (sides.height < 1 || sides.width < 1) bad(key, "height and width");
    return sides;
  }

  // Of the shorter side, in {"shortest_edge": N}; 0 where both are given.
  int64_t shortest_edge() const {
    const models::Json size = root_.value("size", models::Json());
    if (!size.is_object() || !size.contains("shortest_edge")) return 0;
    const auto edge = models::get<int64_t>(size, "shortest_edge", 0, where_);
    if (edge < 1 || size.size() != 1) bad("size", "height and width, or shortest_edge alone");
    return edge;
  }

  void sizes(const Processor& kind) {
    const int64_t edge = shortest_edge();
    const Sides whole = edge > 0 ? Sides{edge, edge} : sides("size", kind.size);
    p_.crop_mode = edge > 0 ? "center" : "squash";
    if (!models::get(root_, "do_center_crop", kind.crops, where_)) {
      if (edge > 0) bad("size", "height and width where nothing is cropped");
      p_.height = whole.height, p_.width = whole.width, p_.crop_pct = 1;
      return;
    }
    const Sides crop = sides("crop_size", kCropSize);
    if (crop.height > whole.height || crop.width > whole.width) bad("crop_size", "no more than size");
    p_.height = crop.height, p_.width = crop.width;
    if (edge > 0) {
      // The larger side of the crop has to fit into the shorter side of the image too.
      p_.crop_pct = crop_share(std::min(crop.height, crop.width), edge);
      return;
    }
    p_.crop_pct = crop_share(crop.height, whole.height);
    if (p_.resized(crop.width) != whole.width) bad("crop_size", "the same share of both sides of size");
  }

  // Its `size` is what is cut out, of an image whose shorter side is size / crop_pct.
  void convnext_sizes(const Processor& kind) {
    if (models::get(root_, "do_center_crop", false, where_)) bad("do_center_crop", "false");
    const int64_t edge = shortest_edge(), size = edge > 0 ? edge : models::get<int64_t>(root_, "size", kind.size, where_);
    if (size < 1) bad("size", "shortest_edge");
    p_.height = p_.width = size;
    p_.crop_pct = models::get(root_, "crop_pct", 224.0 / 256, where_);
    if (!is_crop_share(p_.crop_pct)) bad("crop_pct", "a share of the image, up to 1");
    if (size < kConvNextWhole) return;
    p_.crop_pct = 1, p_.crop_mode = "squash";
  }

  void values(const Processor& kind) {
    const auto filter = models::get(root_, "resample", kind.resample, where_);
    if (filter < 0 || filter >= std::ssize(kPillowFilters)) bad("resample", "0 to 5");
    p_.interpolation = kPillowFilters[filter];
    const bool normalize = models::get(root_, "do_normalize", true, where_);
    const std::vector<double> half(3, 0.5);
    p_.mean = normalize ? models::get(root_, "image_mean", half, where_) : std::vector<double>(3, 0);
    p_.std = normalize ? models::get(root_, "image_std", half, where_) : std::vector<double>(3, 1);
  }

  const models::Json root_;
  const std::string& where_;
  TimmPreprocessing p_;
};

}  // namespace

TimmPreprocessing parse_processor(std::string_view json, const std::string& where) {
  return ProcessorReader(json, where).read();
}

std::string hugging_face_preprocessor(const TimmPreprocessing& p, std::vector<std::string>& notes) {
  if (p.crop_pct != 1 || p.crop_mode != "squash") {
    notes.push_back(
        fmt::format("Hugging Face's ViT processor resizes to {} x {}, whatever an image's shape, and crops nothing: "
                    "preprocessor_config.json does so, and the run's evaluators resize and crop otherwise",
                    p.height, p.width));
  }
  models::Json root;
  root["image_processor_type"] = "ViTImageProcessor";
  root["do_resize"] = true;
  root["size"] = {{"height", p.height}, {"width", p.width}};
  const auto filter = std::ranges::find(kPillowFilters, p.interpolation);
  if (filter != std::end(kPillowFilters)) root["resample"] = filter - std::begin(kPillowFilters);
  root["do_rescale"] = true;
  root["rescale_factor"] = 1.0 / 255;
  root["do_normalize"] = true;
  root["image_mean"] = p.mean;
  root["image_std"] = p.std;
  return root.dump(2) + "\n";
}

}  // namespace tessera::interop
