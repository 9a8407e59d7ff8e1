#pragma once
// `tessera data prepare`: unpacks public data sets from the archives that they are published as, into the form that sources
// read.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tools/prepare/unpack.h"

namespace tessera::data {

// An archive as it is published.
struct Published {
  std::string name;   // ILSVRC2012_img_val.tar
  int64_t bytes = 0;  // of the file
  std::string md5;
};

struct GivenArchive {
  std::string path, what;  // "training images, 1,000 classes"
  int64_t bytes = 0;
  const Published* published = nullptr;  // null: there is none to compare it with
};

// Messages about the set, shown after its folders are made.
struct Finding {
  std::vector<std::string> problems;  // the set is not what it should be
  std::vector<std::string> notes;     // it differs from the published one
  std::vector<std::string> sources;   // calls that read it: "folder(DIR/train)"
};

struct PreparePlan {
  std::vector<GivenArchive> archives;
  std::vector<UnpackPlan> folders;
  // Whether `finish` may write a list of this name beside the folders.
  std::function<bool(std::string_view name)> own_list;
  // After the folders are there: writes lists beside them, and compares what is there with what should be.
  std::function<Finding(const std::string& dir, const std::vector<UnpackedFolder>& folders, store::FileSystem& files)> finish;
};

struct PrepareOptions {
  UnpackOptions unpack;
  bool checksums = false;  // compare the MD5 of each published archive first
};

struct Prepared {
  std::vector<UnpackedFolder> folders;
  Finding finding;
};

// The files that are given by name, and of given directories those that may be archives (.tar, .gz, .tgz, .zip, .csv), in order.
// Throws a usage Error for what is not there.
std::vector<std::string> files_given(const std::vector<std::string>& from);

// Plans what to make of these archives; writes nothing. Throws a usage Error for a file that does not belong to the set, and
// where an archive that another needs is missing. Throws a data Error for a damaged archive, and for one that does not fit
// another.
PreparePlan plan_imagenet(const std::vector<std::string>& paths);
// `dir`: where images may lie already.
PreparePlan plan_coco(const std::vector<std::string>& paths, const std::string& dir);

// Throws a data Error where the disk has too little room, before anything is written; else as unpack().
Prepared prepare(const PreparePlan& plan, const std::string& dir, const PrepareOptions& options);

}  // namespace tessera::data
