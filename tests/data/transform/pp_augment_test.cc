// The ops of chains that change pixels, pad, or go by another library's rules, through whole chains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "data/transform/pp.h"
#include "image/augment_testing.h"
#include "image/image_testing.h"
#include "image/ops/window.h"
#include "image/resize/resize.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::data {
namespace {

using image::testing::augment_picture;
using image::testing::photo;
using image::testing::pixels;
using image::testing::png_bytes;
using image::testing::set_picture;
using ::testing::AllOf;
using ::testing::HasSubstr;

const tessera::testing::ReferenceFile& references(const std::string& name) {
  static std::map<std::string, tessera::testing::ReferenceFile> files;
  const auto [file, added] = files.try_emplace(name);
  if (added)
    file->second =
        tessera::testing::read_references(tessera::testing::source_path("tests/references/") + name + ".safetensors");
  return file->second;
}

std::vector<uint8_t> run(const std::string& chain, const std::vector<uint8_t>& file, uint64_t sample = 0) {
  const Pp pp(chain, PpUse::kTrain);
  PpScratch scratch;
  std::vector<uint8_t> out(pp.image_bytes());
  const image::SampleError failed = pp.run(file, {1, 2, sample}, scratch, out.data());
  EXPECT_FALSE(failed) << (failed ? failed->reason : "");
  return out;
}

std::string error_of(const std::string& chain, PpUse use = PpUse::kTrain) {
  try {
    Pp(chain, use, "data.pp");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(PpAugment, Accepts) {
  for (const char* op : {"auto_augment(rand-m9-mstd0.5-inc1)", "auto_augment(original, interpolation=bicubic, fill=128)",
                         "auto_augment(augmix-m5-w4-d2)", "randaug(rand-m9-mstd0.5-inc1)", "randaug(2, 10)",
                         "randaug(num_layers=2, magnitude=15)", "color_jitter(0.4)", "color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8)",
                         "color_jitter([0.8, 1.2], 0, 0)", "random_grayscale(0.2)", "gaussian_blur(0.5)",
                         "gaussian_blur(p=0.5, size=9, sigma=1)", "flip_ud", "flip_ud(0.1)"}) {
    EXPECT_EQ(error_of("decode | resize(40) | " + std::string(op)), "accepted");
    EXPECT_THAT(error_of("decode | resize(40) | " + std::string(op), PpUse::kEval), HasSubstr("it is random"));
  }
  EXPECT_EQ(error_of("decode | resize_small(32, library=tensorflow) | central_crop(28, library=tensorflow)", PpUse::kEval),
            "accepted");
  EXPECT_EQ(error_of("decode | resize_keep_ratio(32, longest=1) | central_crop_or_pad(28, fill=[124, 116, 104])", PpUse::kEval),
            "accepted");
  EXPECT_EQ(error_of("decode | resize_long(32) | pad_to_shape(32) | vgg_value_range", PpUse::kEval), "accepted");
  EXPECT_EQ(error_of("decode | central_crop | resize(32)", PpUse::kEval), "accepted");
  EXPECT_EQ(
      error_of("decode_jpeg_and_inception_crop(32, ratio_max=2, interpolation=bicubic, library=tensorflow, antialias=true)"),
      "accepted");
}

TEST(PpAugment, Refuses) {
  const auto error = [](const std::string& op) { return error_of("decode | resize(20) | " + op); };
  EXPECT_THAT(error("randaug"), HasSubstr("`num_layers` is missing"));
  EXPECT_THAT(error("randaug(many)"), AllOf(HasSubstr("neither"), HasSubstr("randaug(2, 10)")));
  EXPECT_THAT(error("randaug(rand-q3)"), HasSubstr("unknown section `q`"));
  EXPECT_THAT(error("randaug(2, -1)"), HasSubstr("`magnitude`"));
  EXPECT_THAT(error("auto_augment(orginal)"), AllOf(HasSubstr("`orginal`"), HasSubstr("originalr")));
  EXPECT_THAT(error("auto_augment(v0, interpolation=lanczos)"), HasSubstr("nearest, bilinear or bicubic"));
  EXPECT_THAT(error("auto_augment(v0, fill=[1, 2])"), HasSubstr("one level or three"));
  EXPECT_THAT(error("color_jitter(-1)"), HasSubstr("must not be negative"));
  EXPECT_THAT(error("color_jitter(0.1, 0.1, 0.1, 0.7)"), HasSubstr("-0.5..0.5"));
  EXPECT_THAT(error("gaussian_blur(size=4)"), HasSubstr("odd"));
  EXPECT_THAT(error("gaussian_blur(size=41)"), HasSubstr("at least 21 pixels"));
  EXPECT_THAT(error("gaussian_blur(sigma=[2, 1])"), HasSubstr("low <= high"));
  EXPECT_THAT(error("central_crop_or_pad(8, padding=mirror)"), HasSubstr("unknown padding `mirror`"));
  EXPECT_THAT(error("pad_to_shape(19)"), HasSubstr("are larger"));
  EXPECT_THAT(error("pad_to_shape(30, where=left)"), HasSubstr("unknown place `left`"));
  EXPECT_THAT(error("trim_border(10)"), HasSubstr("nothing is left"));
  EXPECT_THAT(error("resize(8, library=tensorfow)"), AllOf(HasSubstr("`tensorfow`"), HasSubstr("`tensorflow`")));
  EXPECT_THAT(error("resize(8, antialias=true)"), HasSubstr("library=tensorflow"));
  EXPECT_THAT(error("resize(8, interpolation=lanczos, library=tensorflow)"), HasSubstr("unknown interpolation `lanczos`"));
  EXPECT_THAT(error("resize_keep_ratio(8, longest=2)"), HasSubstr("`longest`"));
  EXPECT_THAT(error("resize_keep_ratio(8, scale=[1e-9, 1], scale_prob=1)"), HasSubstr("`scale` must be [low, high] with 0.01"));
  EXPECT_THAT(error("resize_keep_ratio(8, aspect=[1, 1e300], aspect_prob=1)"), HasSubstr("`aspect` must be [low, high]"));
  EXPECT_THAT(error_of("decode | decode_jpeg_and_inception_crop(8)"), HasSubstr("may only come first"));
  EXPECT_THAT(error_of("decode | resize_keep_ratio(32)"), HasSubstr("no fixed size"));
}

// A crop after a resize is computed alone: the same bytes as out of the whole, wherever it lies, mirrored or not.
TEST(PpAugment, CropAfterResizeEqualsCropOfTheWhole) {
  const int sizes[][4] = {{97, 61, 40, 33}, {33, 40, 97, 61}, {64, 64, 64, 20},
                          {50, 50, 50, 50}, {7, 5, 90, 80},   {200, 9, 11, 30}};
  Rng rng(11);
  const auto below = [&](int n) { return static_cast<int>(rng.below(static_cast<uint64_t>(n))); };
  image::testing::on_every_target([&] {
    for (const auto& s : sizes) {
      const image::Image image = photo(s[0], s[1]);
      const int width = s[2], height = s[3];
      for (int f = 0; f <= static_cast<int>(image::Filter::kLanczos); ++f) {
        const auto filter = static_cast<image::Filter>(f);
        image::Image whole(width, height);
        image::resize_plain(image.view(), filter, false, width, height, whole.row(0), whole.stride());
        for (int i = 0; i < 6; ++i) {
          const int w = 1 + below(width), h = 1 + below(height);
          const image::ResizeWindow window{s[0], s[1], width, height, {below(width - w + 1), below(height - h + 1), w, h}};
          const image::Box input = image::needed_input(window, filter);
          const bool mirror = i % 2 == 1;
          // Only the needed part, with nothing of use around it.
          image::Image part(input.width, input.height);
          image::copy_image(image.view().crop(input), false, part.row(0), part.stride());
          std::vector<uint8_t> ours(static_cast<size_t>(w * h * 3)), expected(ours.size());
          image::Resizer().resize_window(part.view(), input, window, filter, mirror, ours.data(), w * 3);
          image::copy_image(whole.view().crop(window.box), mirror, expected.data(), w * 3);
          EXPECT_EQ(ours, expected) << image::filter_name(filter) << ' ' << s[0] << 'x' << s[1] << " to " << width << 'x'
                                    << height << " box " << window.box.x << ',' << window.box.y << ' ' << w << 'x' << h;
        }
      }
    }
  });
}

TEST(PpAugment, PendingOpsInEveryOrder) {
  const image::Image image = photo(150, 110);
  const std::vector<uint8_t> jpeg = image::testing::encode_jpeg(image);
  image::Image decoded;
  ASSERT_FALSE(image::Decoder().decode(jpeg, decoded));
  const std::vector<uint8_t> png = png_bytes(decoded);
  // flip_ud(0) does nothing, and flip_ud twice nothing that stays, but each makes the pixels be there.
  const std::string pause = " | flip_ud(1) | flip_ud(1)";
  const std::vector<std::string> ops = {
      "flip_lr(1)",       "resize_small(70, bicubic)",      "central_crop(61, 40)", "flip_lr(1)",      "resize(50, 37)",
      "central_crop(33)", "resize(20, library=tensorflow)", "flip_lr(1)",           "central_crop(17)"};
  std::string lazy = "decode", eager = "decode";
  for (size_t i = 0; i < ops.size(); ++i) {
    lazy += " | " + ops[i];
    eager += pause + " | " + ops[i];
    if (i < 2) continue;  // not yet of a fixed size
    EXPECT_EQ(run(lazy, jpeg), run(eager, png)) << lazy;
    EXPECT_EQ(run(lazy, jpeg), run(lazy + pause, jpeg)) << lazy;
  }
}

TEST(PpAugment, PadsEqualTimm) {
  for (const auto& [name, entry] : references("augment").config.at("pads").items()) {
    SCOPED_TRACE(name);
    const image::Image image = augment_picture(entry.at("picture"));
    const bool reflect = entry.at("mode") == "reflect";
    const std::vector<uint8_t>& expected = references("augment").tensors.at(name).bytes;
    if (entry.contains("box")) {
      const auto box = entry.at("box").get<std::vector<int>>();
      image::Canvas canvas;
      set_picture(canvas, image);
      const image::Rgb fill = reflect ? image::Rgb{} : image::Rgb{124, 116, 104};
      image::cut_window(canvas, {box[0], box[1], box[2], box[3]}, {reflect, fill});
      EXPECT_EQ(pixels(canvas.image().view()), expected);
    } else {
      const std::string padding = reflect ? "padding=reflect" : "fill=[124, 116, 104]";
      const std::string chain = fmt::format("decode | central_crop_or_pad({}, {}, {})", entry.at("size")[0].get<int>(),
                                            entry.at("size")[1].get<int>(), padding);
      EXPECT_EQ(run(chain, png_bytes(image)), expected);
    }
  }
}

TEST(PpAugment, PadToShape) {
  const image::Image image = augment_picture("tiny");  // 5 x 4
  const auto corner = [&](const std::string& arguments, int width, int x, int y) {
    const std::vector<uint8_t> out = run("decode | pad_to_shape(" + arguments + ")", png_bytes(image));
    std::vector<uint8_t> part;
    for (int line = 0; line < 4; ++line) {
      const uint8_t* row = out.data() + ((y + line) * width + x) * 3;
      part.insert(part.end(), row, row + 15);
    }
    return std::pair(part == pixels(image.view()),
                     std::accumulate(out.begin(), out.end(), 0) - std::accumulate(part.begin(), part.end(), 0));
  };
  EXPECT_EQ(corner("8, 7", 8, 0, 0), std::pair(true, 0));
  EXPECT_EQ(corner("8, 7, where=before", 8, 3, 3), std::pair(true, 0));
  EXPECT_EQ(corner("8, 7, where=both, fill=9", 8, 1, 1), std::pair(true, (56 - 20) * 27));
  EXPECT_EQ(run("decode | pad_to_shape(5, 4)", png_bytes(image)), pixels(image.view()));
}

// timm's ResizeKeepRatio and big_vision's resize_small and resize_long: the size they resize to.
TEST(PpAugment, SidesAreTheLibrarys) {
  const auto size_after = [](const std::string& op, int width, int height) {
    // Of an image of known size the chain knows the result's.
    const Pp pp(fmt::format("decode | resize({}, {}) | {}", width, height, op), PpUse::kEval);
    return std::vector<int>{pp.width(), pp.height()};
  };
  for (const auto& entry : references("augment").config.at("keep_ratio")) {
    const std::string op = fmt::format("resize_keep_ratio({}, {}, longest={})", entry.at("size")[0].get<int>(),
                                       entry.at("size")[1].get<int>(), entry.at("longest").get<double>());
    EXPECT_EQ(size_after(op, entry.at("in")[0], entry.at("in")[1]), entry.at("out").get<std::vector<int>>()) << entry.dump();
  }
  for (const auto& entry : references("tensorflow_ops").config.at("sides")) {
    const int size = entry[1];
    const int width = entry[0][0], height = entry[0][1];
    EXPECT_EQ(size_after(fmt::format("resize_small({}, library=tensorflow)", size), width, height),
              entry[2].get<std::vector<int>>());
    EXPECT_EQ(size_after(fmt::format("resize_long({}, library=tensorflow)", size), width, height),
              entry[3].get<std::vector<int>>());
  }
  EXPECT_EQ(size_after("resize_small(64)", 101, 75), (std::vector<int>{86, 64}));
  EXPECT_EQ(size_after("resize_long(64)", 101, 75), (std::vector<int>{64, 47}));
  EXPECT_EQ(size_after("central_crop", 101, 75), (std::vector<int>{75, 75}));
  EXPECT_EQ(size_after("trim_border(5)", 101, 75), (std::vector<int>{91, 65}));
}

TEST(PpAugment, TensorflowResizeInAChain) {
  for (const auto& [name, entry] : references("tensorflow_ops").config.at("resizes").items()) {
    SCOPED_TRACE(name);
    const image::Image image =
        image::testing::formula_image("tensorflow/" + name.substr(name.rfind('/') + 1), entry.at("in")[0], entry.at("in")[1]);
    const std::string chain = fmt::format("decode | resize({}, {}, interpolation={}, library=tensorflow, antialias={})",
                                          entry.at("out")[0].get<int>(), entry.at("out")[1].get<int>(),
                                          entry.at("method").get<std::string>(), entry.at("antialias").get<bool>());
    const std::vector<uint8_t>& expected = references("tensorflow_ops").tensors.at(name).bytes;
    EXPECT_EQ(run(chain, png_bytes(image)), expected);
    image::Image result(entry.at("out")[0], entry.at("out")[1]);
    std::memcpy(result.row(0), expected.data(), expected.size());
    std::vector<uint8_t> mirrored(expected.size());
    image::copy_image(result.view(), true, mirrored.data(), result.stride());
    EXPECT_EQ(run(chain + " | flip_lr(1)", png_bytes(image)), mirrored);
  }
}

// Which half of an odd pixel a central crop takes.
TEST(PpAugment, CentralCropRoundsAsItsLibraryDoes) {
  const image::Image image = photo(10, 7);
  const auto at = [&](int x, int y, int w, int h) { return pixels(image.view().crop({x, y, w, h})); };
  EXPECT_EQ(run("decode | central_crop(7, 4)", png_bytes(image)), at(2, 2, 7, 4));  // 1.5 to even
  EXPECT_EQ(run("decode | central_crop(7, 4, library=tensorflow)", png_bytes(image)), at(1, 1, 7, 4));
  EXPECT_EQ(run("decode | central_crop(9, 6)", png_bytes(image)), at(0, 0, 9, 6));
  EXPECT_EQ(run("decode | resize(10, 7) | central_crop", png_bytes(image)), at(2, 0, 7, 7));
}

TEST(PpAugment, FlipUpsideDown) {
  const image::Image image = photo(10, 7);
  image::Image turned(10, 7);
  for (int y = 0; y < 7; ++y) std::memcpy(turned.row(y), image.row(6 - y), 30);
  EXPECT_EQ(run("decode | central_crop(10, 7) | flip_ud(1)", png_bytes(image)), pixels(turned.view()));
  EXPECT_EQ(run("decode | flip_ud(1) | central_crop(10, 7)", png_bytes(image)), pixels(turned.view()));
  EXPECT_EQ(run("decode | central_crop(10, 7) | flip_ud(0)", png_bytes(image)), pixels(image.view()));
}

// A probability of nothing or a range of nothing leaves the picture; otherwise most samples differ, each by its key alone.
TEST(PpAugment, ChoicesFollowFromTheKeyAlone) {
  const std::vector<uint8_t> file = image::testing::encode_jpeg(photo(150, 110));
  const std::string start = "decode | resize(40) | ";
  const std::vector<uint8_t> plain = run("decode | resize(40)", file);
  for (const char* op :
       {"color_jitter(0)", "color_jitter(0.4, p=0)", "random_grayscale(0)", "gaussian_blur(0)", "auto_augment(rand-p0)"}) {
    EXPECT_EQ(run(start + op, file), plain) << op;
  }
  for (const char* op :
       {"auto_augment(rand-m9-mstd0.5-inc1-p1)", "auto_augment(original)", "auto_augment(3a)", "auto_augment(augmix)",
        "auto_augment(augmix-b1)", "randaug(2, 10)", "color_jitter(0.4)", "color_jitter(0.4, 0.4, 0.4, 0.1)",
        "gaussian_blur(1)", "random_crop_or_pad(50, padding=reflect)", "resize_keep_ratio(200, aspect_prob=1) | resize(40)"}) {
    std::set<std::vector<uint8_t>> results;
    PpScratch scratch;
    const Pp pp(start + op, PpUse::kTrain);
    for (uint64_t sample = 0; sample < 20; ++sample) {
      std::vector<uint8_t> out(pp.image_bytes());
      ASSERT_FALSE(pp.run(file, {1, 2, sample}, scratch, out.data()));
      EXPECT_EQ(out, run(start + op, file, sample)) << op;
      results.insert(out);
    }
    EXPECT_GE(results.size(), 10u) << op;
  }
  EXPECT_EQ(run(start + "random_grayscale(1)", file)[0], run(start + "random_grayscale(1)", file)[1]);
}

// A chain's memory grows to what the largest image takes, and no further.
TEST(PpAugment, MemoryIsReused) {
  const std::vector<uint8_t> file = image::testing::encode_jpeg(photo(150, 110));
  const Pp pp(
      "decode | random_resized_crop(64, interpolation=random) | flip_lr | color_jitter(0.4) | randaug(rand-m9-mstd0.5-inc1)",
      PpUse::kTrain);
  PpScratch scratch;
  std::vector<uint8_t> out(pp.image_bytes());
  const auto run_samples = [&](uint64_t begin, uint64_t end) {
    for (uint64_t sample = begin; sample < end; ++sample) ASSERT_FALSE(pp.run(file, {1, 2, sample}, scratch, out.data()));
  };
  run_samples(0, 300);
  const size_t before = scratch.bytes();
  run_samples(300, 400);
  EXPECT_LE(scratch.bytes(), before + before / 10);  // other crops have other tables
}

TEST(PpAugment, UnreadableImagesAreReasons) {
  const auto reason = [](const std::string& chain) {
    const Pp pp(chain, PpUse::kTrain);
    PpScratch scratch;
    std::vector<uint8_t> out(pp.image_bytes());
    const image::SampleError failed = pp.run(png_bytes(photo(20, 9)), {}, scratch, out.data());
    return failed ? failed->reason : "accepted";
  };
  EXPECT_EQ(reason("decode | gaussian_blur(1) | resize(8)"), "20x9 pixels, too few for a blur over 23");
  EXPECT_EQ(reason("decode | pad_to_shape(16)"), "20x9 pixels, larger than the 16x16 to pad to");
  EXPECT_EQ(reason("decode | trim_border(5) | resize(8)"), "20x9 pixels, and a border of 5 leaves nothing of them");
}

}  // namespace
}  // namespace tessera::data
