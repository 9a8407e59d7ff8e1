#include "data/transform/pp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "image/image_testing.h"
#include "image/resize/resize.h"

namespace tessera::data {
namespace {

using image::testing::photo;
using image::testing::pixels;
using image::testing::png_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::string& chain, PpUse use = PpUse::kTrain) {
  try {
    Pp(chain, use, "data.pp");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    EXPECT_EQ(error.where(), "data.pp");
    return error.what();
  }
  return "accepted";
}

std::vector<uint8_t> run(const std::string& chain, const std::vector<uint8_t>& file, const SampleKey& key = {}) {
  const Pp pp(chain, PpUse::kTrain);
  PpScratch scratch;
  std::vector<uint8_t> out(pp.image_bytes());
  const image::SampleError failed = pp.run(file, key, scratch, out.data());
  EXPECT_FALSE(failed) << (failed ? failed->reason : "");
  return out;
}

std::vector<uint8_t> resized(const image::ImageView& view, int width, int height, image::Filter filter, bool mirror = false) {
  std::vector<uint8_t> out(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  image::resize_plain(view, filter, mirror, width, height, out.data(), width * 3);
  return out;
}

// Red is the column, green the row.
image::Image coordinates(int width, int height) {
  image::Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint8_t* p = image.row(y) + x * 3;
      p[0] = static_cast<uint8_t>(x);
      p[1] = static_cast<uint8_t>(y);
      p[2] = 0;
    }
  }
  return image;
}

TEST(PpParse, Accepts) {
  const Pp pp("decode | resize(20, 12, bicubic) | value_range(0, 1)", PpUse::kEval);
  EXPECT_EQ(pp.width(), 20);
  EXPECT_EQ(pp.height(), 12);
  EXPECT_EQ(pp.image_bytes(), 720u);
  EXPECT_TRUE(pp.scales_values());
  EXPECT_FALSE(Pp("decode|resize(8)", PpUse::kEval).scales_values());
  EXPECT_EQ(Pp("decode | resize(8, interpolation=lanczos)", PpUse::kEval).height(), 8);
  EXPECT_EQ(Pp("decode | resize(size=8, h=6)", PpUse::kEval).height(), 6);
  EXPECT_EQ(error_of("decode | random_resized_crop(8, scale=[0.2, 1], ratio=[3/4, 4/3], interpolation=random)"), "accepted");
}

TEST(PpParse, OrderOfOps) {
  EXPECT_THAT(error_of("resize(8)"), AllOf(HasSubstr("starts with the file's bytes"), HasSubstr("`decode` before it")));
  EXPECT_THAT(error_of("decode | resize(8) | decode"), HasSubstr("`decode` may only come first"));
  EXPECT_THAT(error_of("decode | value_range(-1, 1) | resize(8)"),
              AllOf(HasSubstr("`resize(8)`"), HasSubstr("end of the chain")));
  EXPECT_THAT(error_of("decode | resize(8) | normalise | value_range(0, 1)"), HasSubstr("a value op stands before it"));
  EXPECT_THAT(error_of(""), HasSubstr("is empty"));
}

TEST(PpParse, UnknownNamesAndArguments) {
  EXPECT_THAT(error_of("decode | resize_smal(8)"),
              AllOf(HasSubstr("unknown preprocessing op `resize_smal`"), HasSubstr("`resize_small`")));
  EXPECT_THAT(error_of("decode | resize(8, bicubik)"), HasSubstr("not `bicubik`"));
  EXPECT_THAT(error_of("decode | resize(8, interpolation=bicubik)"), AllOf(HasSubstr("`bicubik`"), HasSubstr("`bicubic`")));
  EXPECT_THAT(error_of("decode | resize(8, bicubic, interpolation=box)"), HasSubstr("given twice"));
  EXPECT_THAT(error_of("decode | RandomHorizontalFlip"), HasSubstr("did you mean `flip_lr`?"));
  EXPECT_THAT(error_of("decode | center_crop(8)"), HasSubstr("did you mean `central_crop`?"));
  EXPECT_THAT(error_of("decode | resize"),
              AllOf(HasSubstr("`size` is missing"), HasSubstr("resize(size[, h][, interpolation=bilinear])")));
  EXPECT_THAT(error_of("decode | resize(0)"), HasSubstr("from 1 to"));
  EXPECT_THAT(error_of("decode | resize(2.5)"), HasSubstr("whole number"));
  EXPECT_THAT(error_of("decode | random_resized_crop(8, scael=[0.2, 1])"), AllOf(HasSubstr("`scael`"), HasSubstr("`scale`")));
  EXPECT_THAT(error_of("decode | random_resized_crop(8, scale=[0.5, 2])"), HasSubstr("0 < low <= high <= 1"));
  EXPECT_THAT(error_of("decode | random_resized_crop(8, ratio=2)"), HasSubstr("[low, high]"));
  EXPECT_THAT(error_of("decode | inception_crop(8, area_min=0)"), HasSubstr("percentages"));
  EXPECT_THAT(error_of("decode | resize(8) | flip_lr(1.5)"), HasSubstr("probability"));
  EXPECT_THAT(error_of("decode | resize(8) | value_range(1, 1)"), HasSubstr("less than"));
  EXPECT_THAT(error_of("decode | resize(8) | value_range(in_min=255)"), HasSubstr("`in_min` must be less than `in_max`"));
  EXPECT_THAT(error_of("decode | resize(8) | random_crop(17, border=4)"), HasSubstr("the crop is larger than the 8x8 image"));
  EXPECT_THAT(error_of("decode | random_crop(8, border=-1)"), HasSubstr("`border` must be 0 to"));
  EXPECT_THAT(error_of("decode | random_crop(8, border=4, padding=edge)"), HasSubstr("unknown padding `edge`"));
  EXPECT_THAT(error_of("decode | resize(8) | normalise(std=0)"), HasSubstr("positive"));
  EXPECT_THAT(error_of("decode | resize(8) | normalise(mean=[1, 2])"), HasSubstr("one number or three"));
}

TEST(PpParse, SizeMustBeFixedAndFit) {
  EXPECT_THAT(error_of("decode"), AllOf(HasSubstr("no fixed size"), HasSubstr("central_crop(size)")));
  EXPECT_THAT(error_of("decode | resize_small(8)"), HasSubstr("no fixed size"));
  EXPECT_THAT(error_of("decode | resize(8) | random_crop(9)"), HasSubstr("larger than the 8x8 image"));
  EXPECT_THAT(error_of("decode | resize(20, 8) | central_crop(9)"), HasSubstr("larger than the 20x8 image"));
  EXPECT_THAT(error_of("decode | resize_small(8) | central_crop(9)"), HasSubstr("shorter side"));
  EXPECT_EQ(error_of("decode | resize_small(8) | central_crop(9, 8)"), "accepted");
  EXPECT_EQ(error_of("decode | resize(20, 10) | resize_small(5)"), "accepted");
}

TEST(PpParse, EvaluationIsNotRandom) {
  for (const char* op : {"random_resized_crop(8)", "inception_crop(8)", "random_crop(8)", "resize(8) | flip_lr"}) {
    EXPECT_THAT(error_of(std::string("decode | ") + op, PpUse::kEval), HasSubstr("it is random"));
    EXPECT_EQ(error_of(std::string("decode | ") + op, PpUse::kTrain), "accepted");
  }
}

TEST(PpParse, EveryOpIsListed) {
  std::set<std::string> names;
  for (const PpOpInfo& op : pp_ops()) {
    names.insert(op.name);
    EXPECT_TRUE(op.usage.starts_with(op.name)) << op.usage;
    EXPECT_FALSE(op.help.empty()) << op.name;
  }
  EXPECT_TRUE(names.contains("inception_crop"));
}

TEST(PpAffine, ValueRangeAndNormalise) {
  const auto affine = [](const std::string& ops) { return Pp("decode | resize(8)" + ops, PpUse::kEval).pixel_scale(); };
  const PixelScale none = affine("");
  EXPECT_EQ(none.scale[0], 1);
  EXPECT_EQ(none.offset[0], 0);
  const PixelScale range = affine(" | value_range(-1, 1)");
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_FLOAT_EQ(range.scale[c] * 0 + range.offset[c], -1);
    EXPECT_FLOAT_EQ(range.scale[c] * 255 + range.offset[c], 1);
  }
  const PixelScale part = affine(" | value_range(-1, 1, in_min=[10, 20, 30], in_max=130)");
  for (size_t c = 0; c < 3; ++c) {
    const float low = 10.0f * static_cast<float>(c + 1);  // -1 there, and 1 at 130: big_vision's formula
    EXPECT_NEAR(part.scale[c] * low + part.offset[c], -1, 1e-5);
    EXPECT_NEAR(part.scale[c] * 130 + part.offset[c], 1, 1e-5);
  }
  EXPECT_FLOAT_EQ(affine(" | value_range").scale[1], 2.0f / 255);
  const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
  for (const char* ops : {" | normalise", " | normalize", " | value_range(0, 1) | normalise"}) {
    const PixelScale normal = affine(ops);
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(normal.scale[c] * 51 + normal.offset[c], (0.2f - mean[c]) / std[c], 1e-6) << ops;
  }
  // openai/CLIP, clip/clip.py: _transform.
  const double clip_mean[] = {0.48145466, 0.4578275, 0.40821073}, clip_std[] = {0.26862954, 0.26130258, 0.27577711};
  const PixelScale clip = affine(" | clip_value_range");
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(clip.scale[c] * 51 + clip.offset[c], (0.2 - clip_mean[c]) / clip_std[c], 1e-6);
  const PixelScale own = affine(" | normalise(mean=[0.1, 0.2, 0.3], std=0.5)");
  EXPECT_FLOAT_EQ(own.scale[0], 1 / 0.5f / 255);
  EXPECT_FLOAT_EQ(own.offset[2], -0.6f);
}

TEST(PpRun, ResizeAndCrop) {
  const image::Image image = photo(61, 37);
  const std::vector<uint8_t> file = png_bytes(image);
  EXPECT_EQ(run("decode | resize(20, 12, bicubic)", file), resized(image.view(), 20, 12, image::Filter::kBicubic));
  EXPECT_EQ(run("decode | central_crop(20)", file), pixels(image.view().crop({20, 8, 20, 20})));  // 20.5 and 8.5: half to even
  image::Image small(32, 20);
  const std::vector<uint8_t> bytes =
      resized(image.view(), 32, 20, image::Filter::kBilinear);  // 61 * 20 / 37 = 32.97, rounded down
  std::copy(bytes.begin(), bytes.end(), small.row(0));
  EXPECT_EQ(run("decode | resize_small(20) | central_crop(20)", file), pixels(small.view().crop({6, 0, 20, 20})));
  EXPECT_EQ(run("decode | resize_small(20) | resize(9) | resize(5)", file), [&] {
    image::Image nine(9, 9);
    const std::vector<uint8_t> step = resized(small.view(), 9, 9, image::Filter::kBilinear);
    std::copy(step.begin(), step.end(), nine.row(0));
    return resized(nine.view(), 5, 5, image::Filter::kBilinear);
  }());
}

// Flips before and after every other kind of op, against the same done one by one.
TEST(PpRun, FlipCommutesWhereItIsMoved) {
  const image::Image image = photo(61, 37);
  image::Image turned(61, 37);
  image::copy_image(image.view(), true, turned.row(0), turned.stride());
  const std::vector<uint8_t> file = png_bytes(image), turned_file = png_bytes(turned);
  const auto mirrored = [](std::vector<uint8_t> bytes, int width, int height) {
    image::Image from(width, height);
    std::copy(bytes.begin(), bytes.end(), from.row(0));
    image::copy_image(from.view(), true, bytes.data(), from.stride());
    return bytes;
  };
  EXPECT_EQ(run("decode | resize(20, 12) | flip_lr(1)", file), mirrored(run("decode | resize(20, 12)", file), 20, 12));
  EXPECT_EQ(run("decode | flip_lr(1) | resize(20, 12)", file), run("decode | resize(20, 12)", turned_file));
  EXPECT_EQ(run("decode | flip_lr(1) | central_crop(20, 13)", file), run("decode | central_crop(20, 13)", turned_file));
  const std::string rest = "resize(30) | flip_lr(1) | central_crop(11) | flip_lr(1) | resize(7)";
  EXPECT_EQ(run("decode | flip_lr(1) | " + rest, file), run("decode | " + rest, turned_file));
  EXPECT_EQ(run("decode | resize(20) | flip_lr(0)", file), run("decode | resize(20)", file));
}

TEST(PpRun, JpegCropIsFusedWithoutChangingPixels) {
  const std::vector<uint8_t> file = image::testing::encode_jpeg(photo(150, 110));
  image::Image whole;
  ASSERT_FALSE(image::Decoder().decode(file, whole));
  const std::vector<uint8_t> as_png = png_bytes(whole);
  for (uint64_t sample = 0; sample < 40; ++sample) {
    for (const char* chain :
         {"decode | random_resized_crop(32, interpolation=random) | flip_lr", "decode | random_crop(40) | flip_lr",
          "decode | flip_lr | inception_crop(32)", "decode | central_crop(99, 64)"}) {
      EXPECT_EQ(run(chain, file, {5, 2, sample}), run(chain, as_png, {5, 2, sample})) << chain;
    }
  }
}

TEST(PpRun, ChoicesFollowFromTheKeyAlone) {
  const std::vector<uint8_t> file = image::testing::encode_jpeg(photo(150, 110));
  const std::string chain = "decode | random_resized_crop(16) | flip_lr";
  const std::vector<uint8_t> base = run(chain, file, {1, 2, 3});
  EXPECT_EQ(base, run(chain, file, {1, 2, 3}));
  EXPECT_NE(base, run(chain, file, {2, 2, 3}));
  EXPECT_NE(base, run(chain, file, {1, 3, 3}));
  EXPECT_NE(base, run(chain, file, {1, 2, 4}));
  // An op later in the chain changes nothing before it, and two like ops draw apart.
  const std::vector<uint8_t> twice = png_bytes(coordinates(200, 10));
  std::set<std::pair<int, int>> pairs;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    const int one = run("decode | random_crop(100, 10)", twice, {1, 0, sample})[0];
    const int two = run("decode | random_crop(100, 10) | random_crop(1, 10)", twice, {1, 0, sample})[0];
    pairs.insert({one, two - one});
  }
  EXPECT_GT(pairs.size(), 15u);
}

TEST(PpRun, RandomCropReachesEveryPlace) {
  const std::vector<uint8_t> file = png_bytes(coordinates(9, 7));
  std::set<std::pair<int, int>> places;
  for (uint64_t sample = 0; sample < 400; ++sample) {
    const std::vector<uint8_t> out = run("decode | random_crop(7, 4)", file, {3, 0, sample});
    places.insert({out[0], out[1]});
  }
  EXPECT_EQ(places.size(), 12u);  // 3 columns and 4 rows to spare
  EXPECT_EQ(*places.begin(), std::pair(0, 0));
  EXPECT_EQ(*places.rbegin(), std::pair(2, 3));
}

// torchvision's RandomCrop(7, padding=2, padding_mode="reflect"), DeiT III's simple random crop.
TEST(PpRun, RandomCropWithABorder) {
  const std::vector<uint8_t> file = png_bytes(coordinates(9, 7));
  const auto reflected = [](int i, int count) { return i < 0 ? -i : i >= count ? 2 * (count - 1) - i : i; };
  std::set<std::pair<int, int>> places;
  for (uint64_t sample = 0; sample < 600; ++sample) {
    const std::vector<uint8_t> out = run("decode | random_crop(7, border=2, padding=reflect)", file, {3, 0, sample});
    const std::vector<uint8_t> constant = run("decode | random_crop(7, border=2, fill=77)", file, {3, 0, sample});
    // The pixel in the middle is one of the image's, and tells the place.
    const int left = out[3 * 24] - 3, top = out[3 * 24 + 1] - 3;
    places.insert({left, top});
    for (int i = 0; i < 49; ++i) {
      const int x = left + i % 7, y = top + i / 7;
      const bool inside = x >= 0 && x < 9 && y >= 0 && y < 7;
      ASSERT_EQ(out[static_cast<size_t>(3 * i)], reflected(x, 9));
      ASSERT_EQ(out[static_cast<size_t>(3 * i + 1)], reflected(y, 7));
      ASSERT_EQ(constant[static_cast<size_t>(3 * i)], inside ? x : 77);
    }
  }
  EXPECT_EQ(places.size(), 35u);
  EXPECT_EQ(*places.begin(), std::pair(-2, -2));
  EXPECT_EQ(*places.rbegin(), std::pair(4, 2));
}

TEST(PpRun, FlipProbability) {
  const std::vector<uint8_t> file = png_bytes(coordinates(4, 1));
  int flipped = 0;
  for (uint64_t sample = 0; sample < 1000; ++sample)
    flipped += run("decode | resize(4, 1) | flip_lr(0.3)", file, {9, 0, sample})[0] == 3;
  EXPECT_NEAR(flipped, 300, 50);
}

struct Estimate {
  double area, aspect;
};

// The crop's part of the image and its aspect, from where the nearest pixels came.
Estimate estimate(const std::string& chain, int size, const std::vector<uint8_t>& file, double image_area, uint64_t sample) {
  const std::vector<uint8_t> out = run(chain, file, {4, 0, sample});
  const double stretch = size / (size - 1.0);
  const double width = (out[out.size() - 3] - out[0]) * stretch, height = (out[out.size() - 2] - out[1]) * stretch;
  return {width * height / image_area, width / height};
}

TEST(PpRun, RandomResizedCropFollowsItsRanges) {
  const std::vector<uint8_t> file = png_bytes(coordinates(250, 200));
  double smallest = 1, largest = 0, narrowest = 9, widest = 0, sum = 0;
  constexpr int kCount = 300;
  for (uint64_t sample = 0; sample < kCount; ++sample) {
    const Estimate e =
        estimate("decode | random_resized_crop(64, scale=[0.2, 0.6], interpolation=nearest)", 64, file, 250 * 200, sample);
    smallest = std::min(smallest, e.area);
    largest = std::max(largest, e.area);
    narrowest = std::min(narrowest, e.aspect);
    widest = std::max(widest, e.aspect);
    sum += e.area;
  }
  EXPECT_NEAR(smallest, 0.2, 0.02);
  EXPECT_NEAR(largest, 0.6, 0.03);
  EXPECT_NEAR(narrowest, 0.75, 0.04);
  EXPECT_NEAR(widest, 1.333, 0.05);
  EXPECT_NEAR(sum / kCount, 0.4, 0.02);
}

TEST(PpRun, RandomResizedCropFallsBackToTheCentre) {
  // Full area at these aspects never fits, so all ten tries fail.
  const image::Image wide = photo(400, 20), tall = photo(20, 400), square = photo(30, 30);
  const std::string chain = "decode | random_resized_crop(16, scale=[1, 1])";
  EXPECT_EQ(run(chain, png_bytes(wide)), resized(wide.view().crop({186, 0, 27, 20}), 16, 16, image::Filter::kBilinear));
  EXPECT_EQ(run(chain, png_bytes(tall)), resized(tall.view().crop({0, 186, 20, 27}), 16, 16, image::Filter::kBilinear));
  EXPECT_EQ(run("decode | random_resized_crop(16, scale=[1, 1], ratio=[2, 2])", png_bytes(square)),
            resized(square.view().crop({0, 7, 30, 15}), 16, 16, image::Filter::kBilinear));
  EXPECT_EQ(run(chain, png_bytes(photo(1, 1))).size(), 16u * 16 * 3);
}

TEST(PpRun, InceptionCropFollowsItsRanges) {
  const std::vector<uint8_t> file = png_bytes(coordinates(250, 200));
  double smallest = 1, largest = 0;
  for (uint64_t sample = 0; sample < 300; ++sample) {
    const Estimate e =
        estimate("decode | inception_crop(64, area_min=10, area_max=50, interpolation=nearest)", 64, file, 250 * 200, sample);
    smallest = std::min(smallest, e.area);
    largest = std::max(largest, e.area);
    EXPECT_GT(e.aspect, 0.70);
    EXPECT_LT(e.aspect, 1.40);
  }
  EXPECT_NEAR(smallest, 0.1, 0.02);
  EXPECT_NEAR(largest, 0.5, 0.03);
}

// What a trace says was taken is what the pixels show: of a picture whose red is x and whose green is y.
TEST(PpTrace, ItsPartIsWhatTheResultShows) {
  image::Image picture(200, 120);
  for (int y = 0; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x) {
      uint8_t* pixel = picture.row(y) + ptrdiff_t{x} * 3;
      pixel[0] = static_cast<uint8_t>(x), pixel[1] = static_cast<uint8_t>(2 * y), pixel[2] = 7;
    }
  }
  const std::vector<uint8_t> file = image::testing::png_bytes(picture);
  const Pp pp(
      "decode | random_resized_crop(64, scale=[0.3, 1]) | flip_lr | random_crop(40) | flip_lr | resize(20) | "
      "random_grayscale(0)",
      PpUse::kTrain);
  PpScratch scratch;
  image::Image out(20, 20);
  bool sides[2] = {};
  for (uint64_t sample = 0; sample < 40; ++sample) {
    PpTrace trace;
    ASSERT_FALSE(pp.run(file, {1, 0, sample}, scratch, out.row(0), &trace));
    EXPECT_EQ(trace.file_width, 200);
    EXPECT_EQ(trace.file_height, 120);
    sides[trace.mirrored] = true;
    // The means over what is shown are those at its middle, where pixel x stands at x + 0.5.
    double red = 0, green = 0;
    for (int i = 0; i < 400; ++i) red += out.row(0)[3 * i] / 400.0, green += out.row(0)[3 * i + 1] / 400.0;
    EXPECT_NEAR(red + 0.5, trace.x + trace.width / 2, 0.6) << sample;
    EXPECT_NEAR(green / 2 + 0.5, trace.y + trace.height / 2, 0.6) << sample;
    const double across = (out.row(0)[3 * 19] - out.row(0)[0]) / 19.0 * 20;
    EXPECT_NEAR(across, trace.mirrored ? -trace.width : trace.width, 4) << sample;
    ASSERT_GE(trace.steps.size(), 4u);
    EXPECT_EQ(trace.steps.back(), "resize to 20x20, bilinear");
  }
  EXPECT_TRUE(sides[0] && sides[1]);
}

TEST(PpTrace, PaddingReachesPastThePicture) {
  const std::vector<uint8_t> file = image::testing::png_bytes(photo(30, 20));
  const Pp pp("decode | central_crop_or_pad(40) | flip_ud(1)", PpUse::kTrain);
  PpScratch scratch;
  image::Image out(40, 40);
  PpTrace trace;
  ASSERT_FALSE(pp.run(file, {}, scratch, out.row(0), &trace));
  EXPECT_EQ(trace.x, -5);
  EXPECT_EQ(trace.y, -10);
  EXPECT_EQ(trace.width, 40);
  EXPECT_EQ(trace.height, 40);
  EXPECT_EQ(trace.steps, (std::vector<std::string>{"crop 40x40 at (-5, -10)", "flip_ud"}));
}

TEST(PpRun, UnreadableImagesAreReasons) {
  const Pp pp("decode | random_crop(48)", PpUse::kTrain);
  PpScratch scratch;
  std::vector<uint8_t> out(pp.image_bytes());
  EXPECT_EQ(pp.run(png_bytes(photo(61, 37)), {}, scratch, out.data())->reason, "61x37 pixels, smaller than the crop of 48x48");
  EXPECT_EQ(pp.run({}, {}, scratch, out.data())->reason, "the file is empty");
}

}  // namespace
}  // namespace tessera::data
