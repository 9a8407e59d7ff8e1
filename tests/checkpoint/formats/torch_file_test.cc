// Files of torch.save: those that torch wrote (tools/references/models/torch_files.py), and pickles that are not quite right.
#include "checkpoint/formats/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/formats/pickle.h"
#include "checkpoint/formats/safetensors.h"
#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::checkpoint {
namespace {

using namespace std::string_view_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kFolder = testing::source_path("tests/references/torch/");

template <class Act>
std::string failure(Act act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  return "no error";
}

std::string pickle_error(std::string_view bytes) {
  return failure([&] { const Pickle pickle(bytes, "here"); });
}

TEST(TorchFile, HasTheTensorsOfTorch) {
  const SafetensorsFile wanted = SafetensorsFile::open(kFolder + "tensors.safetensors");
  for (const char* name : {"tensors.pth", "protocol4.pt"}) {
    const std::vector<NpzArray> arrays = read_torch(kFolder + name);
    EXPECT_EQ(arrays.size(), wanted.tensors().size());
    for (const TensorView& tensor : wanted.tensors()) {
      const auto found = std::ranges::find(arrays, tensor.name, &NpzArray::name);
      ASSERT_NE(found, arrays.end()) << tensor.name;
      EXPECT_EQ(found->type, tensor.type) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(found->data, tensor.data)) << tensor.name;
    }
  }
}

// timm's order: the average first; and names without what wrappers put before them.
TEST(TorchFile, OfATrainingScriptHasItsStateDict) {
  const std::vector<NpzArray> arrays = read_torch(kFolder + "checkpoint.pth.tar");
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].name, "weight");
  EXPECT_EQ(arrays[1].name, "bias");
  EXPECT_EQ(arrays[1].type, (TensorType{DType::kF32, {2}}));
  float bias = 0;
  std::memcpy(&bias, arrays[1].data.data(), sizeof bias);
  EXPECT_NEAR(bias, -2, 0.01);  // twice that of the model after one step of AdamW
}

// Storages are not read for it: those of the second file are damaged.
TEST(TorchFile, TypesAreThoseOfTheTensors) {
  const testing::TempDir dir;
  std::string bytes = testing::slurp(kFolder + "tensors.pth");
  const std::vector<NpzArray> arrays = read_torch(kFolder + "tensors.pth");
  const auto large = std::ranges::max_element(arrays, {}, [](const NpzArray& array) { return array.data.size(); });
  const std::string data(reinterpret_cast<const char*>(large->data.data()), large->data.size());
  const size_t at = bytes.find(data);
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  testing::spill(dir / "damaged.pth", bytes);
  EXPECT_THAT(failure([&] { read_torch(dir / "damaged.pth"); }), HasSubstr("is damaged"));
  const auto types = torch_types(dir / "damaged.pth");
  ASSERT_EQ(types.size(), arrays.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(types[i].first, arrays[i].name);
    EXPECT_EQ(types[i].second, arrays[i].type);
  }
}

TEST(TorchFile, RunsNothing) {
  const auto error = [](const char* name) { return failure([&] { read_torch(kFolder + name); }); };
  EXPECT_THAT(error("code.pth"),
              AllOf(HasSubstr("names `os.system`, which is code; nothing is run"), HasSubstr("state_dict()")));
  EXPECT_THAT(error("opcode.pth"), HasSubstr("has the opcode 0x53, which is code"));
  EXPECT_THAT(error("module.pth"), HasSubstr("names `torch.nn.modules.linear.Linear`, which is code"));
  EXPECT_THAT(error("old.pth"), AllOf(HasSubstr("as PyTorch writes since 1.6"), HasSubstr("torch.save(torch.load(")));
  EXPECT_THAT(failure([] { read_torch(testing::source_path("tests/references/weights/") + "nothing.pth"); }),
              HasSubstr("No such file"));
}

// The directory at the end of the archive claims it; no memory is taken to find out.
TEST(TorchFile, ByteOrdersOfGigabytesAreRefused) {
  const testing::TempDir dir;
  const std::string path = dir / "a.pth";
  const std::string pickle = "\x80\x02}.", order(2 << 20, 'x');
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, content] : {std::pair("a/data.pkl", &pickle), std::pair("a/byteorder", &order)}) {
    const zip_int64_t index = zip_file_add(archive, name, zip_source_buffer(archive, content->data(), content->size(), 0), 0);
    ASSERT_EQ(zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0), 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
  std::string bytes = testing::slurp(path);
  constexpr size_t kSize = 24;
  const uint32_t claimed = 2'000'000'000;
  std::memcpy(bytes.data() + bytes.rfind("PK\x01\x02") + kSize, &claimed, sizeof claimed);
  testing::spill(path, bytes);
  EXPECT_THAT(failure([&] { read_torch(path); }), HasSubstr("unpacks to more than 1.86 GiB, from 2.00 MiB"));
}

TEST(Pickle, HoldsPlainValues) {
  const Pickle pickle(
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aK\x05X\x01\x00\x00\x00"
      "bJ\xff\xff\xff\xffX\x01\x00\x00\x00"
      "c\x8a\x02\x00\x80X\x01\x00\x00\x00"
      "dG\x3f\xf8\x00\x00\x00\x00\x00\x00u."sv,
      "here");
  EXPECT_EQ(pickle.root().find("a")->integer, 5);
  EXPECT_EQ(pickle.root().find("b")->integer, -1);
  EXPECT_EQ(pickle.root().find("c")->integer, -32768);
  EXPECT_EQ(pickle.root().find("d")->number, 1.5);
  EXPECT_EQ(pickle.root().find("e"), nullptr);
}

TEST(Pickle, MistakesAreErrors) {
  EXPECT_THAT(pickle_error(""), HasSubstr("ends early"));
  EXPECT_THAT(pickle_error("X\xff\xff\xff\x7f"), HasSubstr("ends early"));
  EXPECT_THAT(pickle_error("."), HasSubstr("takes a value that is not there"));
  EXPECT_THAT(pickle_error("N(a."), HasSubstr("takes a value that is not there"));
  EXPECT_THAT(pickle_error("Nt."), HasSubstr("a mark that is not there"));
  EXPECT_THAT(pickle_error("h\x01."), HasSubstr("was not kept"));
  EXPECT_THAT(pickle_error("NNa."), HasSubstr("what is no list"));
  EXPECT_THAT(pickle_error("}(Nu."), HasSubstr("a key without a value"));
  EXPECT_THAT(pickle_error("NNR."), HasSubstr("calls what is no function"));
  EXPECT_THAT(pickle_error("ctorch\nFloatStorage\n)R."), HasSubstr("calls `torch.FloatStorage`, which is code"));
  EXPECT_THAT(pickle_error("cbuiltins\neval\n."), HasSubstr("names `builtins.eval`"));
  EXPECT_THAT(pickle_error("NNb."), HasSubstr("sets the state of what is no known object"));
  EXPECT_THAT(pickle_error("ctorch._utils\n_rebuild_tensor_v2\n)R."), HasSubstr("makes a tensor of what is none"));
}

// A list that holds itself, and one that grows by copies of itself.
TEST(Pickle, CirclesAndGrowthAreBounded) {
  const Pickle circle(
      "]q\x01h\x01"
      "a.",
      "here");
  EXPECT_EQ(circle.root().items[0], &circle.root());
  std::string growing = "](";
  for (int i = 0; i < 3000; ++i) growing += ")";
  growing += "eq";
  growing += '\x01';
  for (int i = 0; i < 3000; ++i) growing += std::string("h\x01Q0", 3);
  EXPECT_THAT(pickle_error(growing + "."), HasSubstr("values of others"));
}

}  // namespace
}  // namespace tessera::checkpoint
