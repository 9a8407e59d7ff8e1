#pragma once
// A thread that does something every now and then.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tessera {

// Calls `look` at each interval until its destruction, which waits for a call that is under way. The thread takes no signals. Where
// the system has no thread for it, nothing is called.
class Periodic {
 public:
  Periodic(std::string name, std::chrono::milliseconds interval, std::function<void()> look);
  ~Periodic();
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  void run(const std::string& name);

  const std::chrono::milliseconds interval_;
  const std::function<void()> look_;
  std::mutex mutex_;
  std::condition_variable ending_now_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tessera
