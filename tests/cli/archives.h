#pragma once
// ImageNet's archives in small, of images that write_image() makes.

#include "cli/run_program.h"
#include "data/prepare_testing.h"

namespace tessera::cli {

// <folder>/train.tar and val.tar: two classes of two images, and two validation images with Kaggle's labels.
inline void write_imagenet_archives(const fs::path& folder) {
  using data::testing::tar_of;
  write_image(folder / "image.png", 0, 0);
  const std::string image = read_file(folder / "image.png");
  fs::remove(folder / "image.png");
  const auto of_class = [&](const std::string& wnid) { return tar_of({{wnid + "_1.JPEG", image}, {wnid + "_2.JPEG", image}}); };
  write_file(folder / "train.tar",
             tar_of({{"n01440764.tar", of_class("n01440764")}, {"n01443537.tar", of_class("n01443537")}}));
  write_file(folder / "val.tar", tar_of({{"ILSVRC2012_val_00000001.JPEG", image}, {"ILSVRC2012_val_00000002.JPEG", image}}));
  write_file(
      folder / "LOC_val_solution.csv",
      "ImageId,PredictionString\nILSVRC2012_val_00000002,n01440764 1 2 3 4\nILSVRC2012_val_00000001,n01443537 1 2 3 4\n");
}

}  // namespace tessera::cli
