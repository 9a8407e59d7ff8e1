// Models of the Hugging Face Hub in a cache laid out as huggingface_hub lays it out.
#include "state/hub_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "state/model_source.h"
#include "state/weight_file.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::state {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCommit = "5c3f1b1a2d8e4f60718293a4b5c6d7e8f9012345";
constexpr const char* kVariables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};

class HubCache : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) {
      const char* value = getenv(name);
      saved_.emplace_back(value == nullptr ? "" : value);
      unsetenv(name);
    }
    setenv("HF_HOME", dir_.path().c_str(), 1);
    setenv("HF_HUB_OFFLINE", "1", 1);
  }
  void TearDown() override {
    unsetenv("HF_HUB_OFFLINE");
    for (size_t i = 0; i < saved_.size(); ++i) {
      saved_[i].empty() ? unsetenv(kVariables[i]) : setenv(kVariables[i], saved_[i].c_str(), 1);
    }
  }

  // The files of `from` under names that their contents give, and links to them as those of the commit.
  std::string fetch(const std::string& folder, const std::string& from = "tests/references/timm_local_dir") {
    const std::filesystem::path model = dir_ / ("hub/" + folder), snapshot = model / "snapshots" / kCommit;
    std::filesystem::create_directories(snapshot);
    std::filesystem::create_directories(model / "blobs");
    std::filesystem::create_directories(model / "refs");
    for (const char* name : {"config.json", "model.safetensors"}) {
      const std::string blob = std::string("of_") + (name[0] == 'c' ? "config" : "model");
      std::filesystem::copy_file(testing::source_path(from) + "/" + name, model / "blobs" / blob);
      std::filesystem::create_symlink("../../blobs/" + blob, snapshot / name);
    }
    std::ofstream(model / "refs/main") << kCommit;
    return snapshot.string();
  }

  static std::string failure(const std::string& from) {
    try {
      return "none: " + in_hub_cache(from, "--from");
    } catch (const Error& error) {
      return error.what();
    }
  }

  testing::TempDir dir_;
  std::vector<std::string> saved_;
};

TEST_F(HubCache, LiesWhereHuggingfaceHubHasIt) {
  EXPECT_EQ(hub_cache(), dir_ / "hub");
  setenv("HUGGINGFACE_HUB_CACHE", "/older", 1);
  EXPECT_EQ(hub_cache(), "/older");
  setenv("HF_HUB_CACHE", "/cache", 1);
  EXPECT_EQ(hub_cache(), "/cache");
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"}) unsetenv(name);
  setenv("HOME", "/home/a", 1);
  EXPECT_EQ(hub_cache(), "/home/a/.cache/huggingface/hub");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(hub_cache(), "/x/huggingface/hub");
}

TEST_F(HubCache, GivesTheModelOfARevision) {
  const std::string snapshot = fetch("models--timm--vit_tiny_patch16_224.augreg_in21k");
  for (const std::string name : {"hub(timm/vit_tiny_patch16_224.augreg_in21k)", "hub(vit_tiny_patch16_224.augreg_in21k)",
                                 "vit_tiny_patch16_224.augreg_in21k"}) {
    EXPECT_EQ(in_hub_cache(name, "--from"), snapshot) << name;
  }
  EXPECT_EQ(in_hub_cache(std::string("hub(timm/vit_tiny_patch16_224.augreg_in21k, revision=") + kCommit + ")", ""), snapshot);
  EXPECT_THAT(failure("hub(timm/vit_tiny_patch16_224.augreg_in21k, revision=v2)"),
              AllOf(HasSubstr("has no revision v2"), HasSubstr("model.safetensors --revision v2`")));
  EXPECT_EQ(in_hub_cache("runs/vit", "--from"), "runs/vit");
  EXPECT_EQ(in_hub_cache("model.safetensors", "--from"), "model.safetensors");
}

TEST_F(HubCache, AModelThereIsLoaded) {
  fetch("models--timm--vit_tiny_patch16_224.augreg_in21k");
  const LoadedModel loaded = load_model("hub(timm/vit_tiny_patch16_224.augreg_in21k)");
  const LoadedModel same = load_model(testing::source_path("tests/references/timm_local_dir"));
  EXPECT_EQ(loaded.pp, same.pp);
  ASSERT_EQ(loaded.params.size(), same.params.size());
  for (size_t i = 0; i < same.params.size(); ++i) EXPECT_TRUE(std::ranges::equal(loaded.params[i].data, same.params[i].data));
  EXPECT_EQ(preprocessing_of("vit_tiny_patch16_224.augreg_in21k"), same.pp);
}

TEST_F(HubCache, WhatIsNotThereIsFetchedByTheCommandInTheMessage) {
  EXPECT_THAT(failure("hub(google/vit-base-patch16-224)"),
              AllOf(HasSubstr("`google/vit-base-patch16-224` is not in the Hugging Face cache " + dir_.path()),
                    HasSubstr("fetch it with `hf download google/vit-base-patch16-224`")));
  const std::string snapshot = fetch("models--timm--vit_tiny_patch16_224.augreg_in21k");
  EXPECT_THAT(failure("vit_tiny_patch16_224.augreg_in1k"),
              AllOf(HasSubstr("`hf download timm/vit_tiny_patch16_224.augreg_in1k config.json model.safetensors`"),
                    HasSubstr("the cache has hub(timm/vit_tiny_patch16_224.augreg_in21k)")));
  EXPECT_THAT(failure("hub(timm/vit_tiny_patch16_224)"), HasSubstr("hub(timm/vit_tiny_patch16_224.augreg_in21k)"));
  // The Hub has no such name, so that no command fetches it.
  EXPECT_THAT(failure("vit_tiny_patch16_224"),
              AllOf(HasSubstr("have a tag there"), HasSubstr("timm.list_pretrained(\"vit_tiny_patch16_224.*\")"),
                    Not(HasSubstr("hf download"))));
  // open_clip's have none.
  EXPECT_THAT(failure("hub(timm/ViT-B-16-SigLIP)"), HasSubstr("`hf download timm/ViT-B-16-SigLIP "));
  std::filesystem::remove(snapshot + "/model.safetensors");
  EXPECT_THAT(failure("vit_tiny_patch16_224.augreg_in21k"), HasSubstr("has no model.safetensors"));
}

TEST_F(HubCache, NamesOfOtherLibrariesAreUnderstood) {
  for (const char* name : {"hf-hub:timm/resnet18", "hf_hub:timm/resnet18", "hub:timm/resnet18", "timm/resnet18"}) {
    EXPECT_EQ(parse_weight_path(name).path, name);
    try {
      load_model(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(fmt::format("`{}` does not exist", name)), HasSubstr("hub(timm/resnet18)")));
    }
  }
  EXPECT_EQ(parse_weight_path("hf://a/b/c.npz:params/img").scope, "params/img");
}

TEST_F(HubCache, NoNameLeadsOutOfIt) {
  for (const char* name :
       {"hub(../../etc)", "hub(a/../b)", "hub(a/b/c)", "hub(/etc)", "hub(a/)", "hub()", "hub(a/b, revision=../x)"}) {
    EXPECT_THAT(failure(name), Not(HasSubstr("none: "))) << name;
    EXPECT_THAT(failure(name), Not(HasSubstr("hf download"))) << name;
  }
  fetch("models--a--b");
  std::ofstream(dir_ / "hub/models--a--b/refs/main") << "../../../elsewhere";
  EXPECT_THAT(failure("hub(a/b)"), HasSubstr("names no commit"));
}

}  // namespace
}  // namespace tessera::state
