#include "store/local/mapping.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "store/file.h"

namespace tessera::store {
namespace {

// Below this a copy is cheaper than a mapping and its faults.
constexpr int64_t kReadBytes = 64 << 10;

// Where a mapping lies. The signal handler reads these without a lock; `version` is odd while a slot changes, so that it never
// takes the beginning of one mapping with the end of another. Slots are never freed: a handler may be looking at any.
struct Slot {
  std::atomic<uint64_t> version{0};
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> taken{false}, failed{false};
  Slot* next = nullptr;
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

std::atomic<Slot*> g_slots{nullptr};
struct sigaction g_before;

void set(Slot& slot, uintptr_t begin, uintptr_t end) {
  slot.version.fetch_add(1);
  slot.begin.store(begin);
  slot.end.store(end);
  slot.version.fetch_add(1);
}

Slot* take_slot() {
  for (Slot* slot = g_slots.load(); slot != nullptr; slot = slot->next) {
    bool free = false;
    if (slot->taken.compare_exchange_strong(free, true)) return slot;
  }
  auto* slot = new Slot;
  slot->taken = true;
  slot->next = g_slots.load();
  while (!g_slots.compare_exchange_weak(slot->next, slot)) {
  }
  return slot;
}

// The mapping that holds `address` while the thread that touches it keeps it alive. Safe in a signal handler.
Slot* slot_of(uintptr_t address, uintptr_t& end) {
  for (Slot* slot = g_slots.load(); slot != nullptr; slot = slot->next) {
    const uint64_t version = slot->version.load();
    const uintptr_t begin = slot->begin.load();
    end = slot->end.load();
    if (version % 2 == 0 && slot->version.load() == version && address >= begin && address < end) return slot;
  }
  return nullptr;
}

// Safe in a signal handler: system calls and lock-free atomics alone.
void on_bus_error(int signal, siginfo_t* information, void* context) {
  const int number = errno;
  uintptr_t end = 0;
  const auto address = reinterpret_cast<uintptr_t>(information->si_addr);
  const bool fault = information->si_code > 0;  // and not sent by kill()
  Slot* slot = fault ? slot_of(address, end) : nullptr;
  if (slot != nullptr) {
    // What is read from here on is useless, so that the rest goes at once: a page each could use up the process's mappings.
    const uintptr_t page = address - address % static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    slot->failed.store(true);  // before any thread can see zeros
    void* zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    errno = number;
    if (zeros != MAP_FAILED) return;
  }
  if (g_before.sa_flags & SA_SIGINFO && g_before.sa_sigaction != nullptr)
    return g_before.sa_sigaction(signal, information, context);
  if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN) return g_before.sa_handler(signal);
  // The access is tried again and ends the process; what was only sent is sent again.
  ::signal(SIGBUS, SIG_DFL);
  if (!fault) raise(SIGBUS);
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    TESSERA_CHECK(sigaction(SIGBUS, &action, &g_before) == 0);
  });
}

}  // namespace

class Mapping {
 public:
  Mapping(void* memory, size_t size, std::string path)
      : memory_(memory), size_(size), path_(std::move(path)), slot_(take_slot()) {
    slot_->failed = false;
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    set(*slot_, begin, begin + size);
  }
  ~Mapping() {
    set(*slot_, 0, 0);
    munmap(memory_, size_);
    slot_->taken = false;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool readable() const { return !slot_->failed; }
  const std::string& path() const { return path_; }

 private:
  void* memory_;
  size_t size_;
  std::string path_;
  Slot* slot_;
};

bool Bytes::readable() const { return mapping == nullptr || mapping->readable(); }

void Bytes::check() const {
  if (!readable()) throw IoError(EIO, "read", mapping->path());
}

namespace {

Bytes read_whole(int descriptor, size_t size, const std::string& path) {
  std::vector<std::byte> bytes(size);
  for (size_t done = 0; done < size;) {
    const ssize_t n = pread(descriptor, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_reading(n < 0 ? errno : EIO, "read", path);
    done += static_cast<size_t>(n);
  }
  return own_bytes(std::move(bytes));
}

}  // namespace

Bytes map_descriptor(int descriptor, int64_t size, const std::string& path) {
  if (size == 0) return {};
  if (size < kReadBytes) return read_whole(descriptor, static_cast<size_t>(size), path);
  install_handler();
  const auto length = static_cast<size_t>(size);
  void* memory = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (memory == MAP_FAILED) fail_reading(errno, "map", path);
  auto mapping = std::make_shared<const Mapping>(memory, length, path);
  return {mapping, {static_cast<const std::byte*>(memory), length}, mapping.get()};
}

}  // namespace tessera::store
