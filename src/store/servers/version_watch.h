#pragma once
// Whether an object that is read in parts is still the one that was opened.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace tessera::store {

// What is said of one that is not: `passes` is false, since its parts are of two versions whenever they are read.
[[noreturn]] void refuse_replaced();

// For servers that give parts of what they have now, whatever that was when the object was opened. Thread-safe.
class VersionWatch {
 public:
  // How long parts of another version may come unnoticed: a question costs a request.
  static constexpr std::chrono::minutes kEvery{1};
  // The object's tag now (ServedObject::tag()), or what the server says (ServerError).
  using Ask = std::function<std::string()>;

  // `tag`: when it was opened; an empty one says nothing, and nothing is asked.
  VersionWatch(std::string tag, Ask ask, std::chrono::milliseconds every = kEvery)
      : tag_(std::move(tag)), ask_(std::move(ask)), every_(every) {}

  // After a part was read: asks where the last answer is `every` old. Throws as refuse_replaced() where the tag is another one.
  void read();
  // After a part could not be read, or not to its end, as of a version that is shorter: asks now.
  void failed();

 private:
  using Clock = std::chrono::steady_clock;
  void look();

  const std::string tag_;
  const Ask ask_;
  const std::chrono::milliseconds every_;
  std::atomic<Clock::rep> looked_{Clock::now().time_since_epoch().count()};
  std::atomic<bool> replaced_{false};
};

}  // namespace tessera::store
