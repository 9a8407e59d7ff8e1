#include "pjrt/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <numeric>

#include "base/error.h"
#include "pjrt/pjrt_testing.h"

namespace tessera::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DType kAllTypes[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32,  DType::kI64, DType::kU8, DType::kU16,
                               DType::kU32,  DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// Every byte pattern of a bool is 0 or 1; of the others anything goes.
std::vector<unsigned char> pattern(const TensorType& type) {
  std::vector<unsigned char> bytes(static_cast<size_t>(byte_count(type)));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(type.dtype == DType::kBool ? i * 7 / 3 % 2 : i * 37 + 1);
  return bytes;
}

TEST(Buffer, EveryTypeComesBackByteForByte) {
  for (const DType dtype : kAllTypes) {
    for (const Dims& dims : {Dims{}, Dims{5}, Dims{2, 3, 4}, Dims{3, 0}}) {
      const TensorType type{dtype, dims};
      SCOPED_TRACE(to_string(type));
      const std::vector<unsigned char> sent = pattern(type);
      const Buffer buffer = cpu_client()->to_device(sent.data(), type);
      EXPECT_EQ(buffer.type(), type);
      EXPECT_EQ(buffer.bytes(), byte_count(type));
      std::vector<unsigned char> got(sent.size(), 0xee);
      const Event done = buffer.to_host(got.data(), got.size());
      done.await();
      done.await();
      EXPECT_TRUE(done.is_ready());
      EXPECT_EQ(got, sent);
    }
  }
}

TEST(Event, TellsWhenTheWorkIsDoneThoughItIsGone) {
  const std::vector<float> values(1 << 16, 1.5f);
  const Buffer buffer = cpu_client()->to_device(values.data(), {DType::kF32, {1 << 16}});
  std::promise<void> told;
  buffer.ready_event().on_ready([&told] { told.set_value(); });
  EXPECT_EQ(told.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  int done = 0;
  Event().on_ready([&done] { ++done; });
  EXPECT_EQ(done, 1);
}

TEST(Buffer, CopyIsTakenBeforeTheCallReturns) {
  std::vector<float> values(1 << 16, 1.5f);
  const Buffer buffer = cpu_client()->to_device(values.data(), {DType::kF32, {1 << 16}});
  std::fill(values.begin(), values.end(), -1.0f);
  EXPECT_EQ(buffer.to_host<float>(), std::vector<float>(1 << 16, 1.5f));
}

TEST(Buffer, AsyncCopyIsDoneWithTheHost) {
  std::vector<int32_t> values(1 << 16);
  std::iota(values.begin(), values.end(), 0);
  const std::vector<int32_t> expected = values;
  const Upload upload = cpu_client()->to_device_async(values.data(), {DType::kI32, {256, 256}});
  upload.done_with_host.await();
  std::fill(values.begin(), values.end(), -1);
  EXPECT_EQ(upload.buffer.to_host<int32_t>(), expected);
}

TEST(Buffer, MovesLeaveNothingBehind) {
  Buffer a = upload<float>(*cpu_client(), {1, 2}, DType::kF32, {2});
  a.set_name("a");
  Buffer b = std::move(a);
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(b.describe(), "`a` (f32[2])");
  EXPECT_THAT(b.to_host<float>(), ElementsAre(1, 2));
  EXPECT_THAT(message_of<InternalError>([&] { (void)a.to_host<float>(); }), HasSubstr("read: the buffer is empty"));
  EXPECT_THAT(message_of<InternalError>([&] { (void)b.to_host<double>(); }),
              HasSubstr("`a` (f32[2]) read as elements of 8 bytes"));
  char small[4];
  EXPECT_THAT(message_of<InternalError>([&] { (void)b.to_host(small, 4); }), HasSubstr("`a` (f32[2]) read into 4 bytes"));
}

TEST(Buffer, OutlivesTheHandleOfItsClient) {
  Buffer buffer;
  {
    const auto client = Client::create(cpu_plugin());
    buffer = upload<float>(*client, {3}, DType::kF32, {1});
  }
  EXPECT_THAT(buffer.to_host<float>(), ElementsAre(3));
}

TEST(Event, ADefaultOneIsDone) {
  const Event event;
  EXPECT_TRUE(event.is_ready());
  event.await();
}

}  // namespace
}  // namespace tessera::pjrt
