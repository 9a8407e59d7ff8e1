#include "pages/report/rasterise.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/system/shared_library.h"

namespace tessera::report {
namespace {

constexpr const char* kLibrary = "librsvg-2.so.2";
constexpr int kRgb24 = 1;            // CAIRO_FORMAT_RGB24: 32-bit words, red, green and blue from the upper to the lower
constexpr int kMaxPixels = 1 << 14;  // of a side

struct Rectangle {  // RsvgRectangle
  double x, y, width, height;
};

// What is used of librsvg (from 2.52 on), and of cairo and GObject, which it brings: their stable C interfaces.
struct Library {
  void* (*new_from_data)(const unsigned char* data, size_t size, void** error);
  int (*intrinsic_size)(void* handle, double* width, double* height);
  int (*render)(void* handle, void* cairo, const Rectangle* viewport, void** error);
  void* (*surface_create)(int format, int width, int height);
  int (*surface_status)(void* surface);
  unsigned char* (*surface_data)(void* surface);
  int (*surface_stride)(void* surface);
  void (*surface_flush)(void* surface);
  void (*surface_destroy)(void* surface);
  void* (*cairo_create)(void* surface);
  void (*set_rgb)(void* cairo, double red, double green, double blue);
  void (*paint)(void* cairo);
  void (*cairo_destroy)(void* cairo);
  void (*unref)(void* object);
};

Error missing(const std::string& why) {
  return data_error(fmt::format("curves as PNG files need librsvg: {}", why), {}, "apt-get install librsvg2-2");
}

Library load() {
  const SharedLibrary at(kLibrary, missing);
  Library library;
  at.find("rsvg_handle_new_from_data", library.new_from_data);
  at.find("rsvg_handle_get_intrinsic_size_in_pixels", library.intrinsic_size);
  at.find("rsvg_handle_render_document", library.render);
  at.find("cairo_image_surface_create", library.surface_create);
  at.find("cairo_surface_status", library.surface_status);
  at.find("cairo_image_surface_get_data", library.surface_data);
  at.find("cairo_image_surface_get_stride", library.surface_stride);
  at.find("cairo_surface_flush", library.surface_flush);
  at.find("cairo_surface_destroy", library.surface_destroy);
  at.find("cairo_create", library.cairo_create);
  at.find("cairo_set_source_rgb", library.set_rgb);
  at.find("cairo_paint", library.paint);
  at.find("cairo_destroy", library.cairo_destroy);
  at.find("g_object_unref", library.unref);
  return library;
}

using Owned = std::unique_ptr<void, void (*)(void*)>;

image::Image pixels_of(const Library& library, void* surface, int width, int height) {
  library.surface_flush(surface);
  const unsigned char* data = library.surface_data(surface);
  const int stride = library.surface_stride(surface);
  image::Image out(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint32_t word = 0;
      std::memcpy(&word, data + ptrdiff_t{y} * stride + ptrdiff_t{4} * x, sizeof word);
      for (int c = 0; c < 3; ++c) out.row(y)[3 * x + c] = static_cast<uint8_t>(word >> (16 - 8 * c));
    }
  }
  return out;
}

}  // namespace

image::Image rasterise_svg(const std::string& svg, double scale) {
  static const Library library = load();
  const auto refuse = [](const char* why) { return data_error(fmt::format("librsvg draws no picture: {}", why)); };
  const Owned handle(library.new_from_data(reinterpret_cast<const unsigned char*>(svg.data()), svg.size(), nullptr),
                     library.unref);
  double width = 0, height = 0;
  if (!handle || !library.intrinsic_size(handle.get(), &width, &height)) throw refuse("this is no SVG with a size");
  const Rectangle view{0, 0, std::round(width * scale), std::round(height * scale)};
  if (!(view.width >= 1 && view.width <= kMaxPixels && view.height >= 1 && view.height <= kMaxPixels)) {
    throw refuse("it would be too large");
  }
  const Owned surface(library.surface_create(kRgb24, static_cast<int>(view.width), static_cast<int>(view.height)),
                      library.surface_destroy);
  if (library.surface_status(surface.get()) != 0) throw std::bad_alloc();
  const Owned cairo(library.cairo_create(surface.get()), library.cairo_destroy);
  library.set_rgb(cairo.get(), 1, 1, 1);
  library.paint(cairo.get());
  if (!library.render(handle.get(), cairo.get(), &view, nullptr)) throw refuse("it could not be drawn");
  return pixels_of(library, surface.get(), static_cast<int>(view.width), static_cast<int>(view.height));
}

}  // namespace tessera::report
