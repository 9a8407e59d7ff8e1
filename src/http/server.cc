#include "http/server.h"

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/system/background_thread.h"

namespace tessera::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Tcp = asio::ip::tcp;
using boost::system::error_code;
using WireRequest = beast::http::request<beast::http::string_body>;

constexpr int kWorkers = 4;
constexpr size_t kWaitingEvents = 256;  // of one reader
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(1);

// Threads that make answers. They share what they work with, so that one that hangs can be left behind.
class Workers {
 public:
  void start(int count) {
    // A thread that has begun waits for the lock, and so is counted before it can end.
    const std::lock_guard lock(queue_->mutex);
    for (int i = 0; i < count; ++i) {
      std::thread([queue = queue_] {
        become_background_thread("live page");
        queue->run();
      }).detach();
      ++queue_->threads;
    }
  }
  void add(std::function<void()> work) {
    const std::lock_guard lock(queue_->mutex);
    queue_->waiting.push_back(std::move(work));
    queue_->more.notify_one();
  }
  void finish(std::chrono::milliseconds patience) {
    std::unique_lock lock(queue_->mutex);
    queue_->ending = true;
    queue_->waiting.clear();
    queue_->more.notify_all();
    queue_->done.wait_for(lock, patience, [this] { return queue_->ended == queue_->threads; });
  }

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable more, done;
    std::deque<std::function<void()>> waiting;
    bool ending = false;
    int threads = 0, ended = 0;

    void run() {
      for (;;) {
        std::function<void()> work;
        {
          std::unique_lock lock(mutex);
          more.wait(lock, [this] { return ending || !waiting.empty(); });
          if (ending) break;
          work = std::move(waiting.front());
          waiting.pop_front();
        }
        work();
      }
      const std::lock_guard lock(mutex);
      ++ended;
      done.notify_all();
    }
  };
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

// Nothing where the target is none.
std::optional<Request> read_request(WireRequest wire) {
  Request out;
  const auto target = wire.target();
  if (!parse_target({target.data(), target.size()}, out)) return std::nullopt;
  out.method = std::string(wire.method_string());
  for (const auto& field : wire) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    out.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  out.body = std::move(wire.body());
  return out;
}

}  // namespace

class Connection;

// Everything but `workers`, `handler` and the atomics is the I/O thread's once that runs. What waits in `io` holds connections,
// which hold this: close() ends all of it, so that nothing holds itself.
struct ServerState : std::enable_shared_from_this<ServerState> {
  ServerState(const ServerOptions& wanted, Server::Handler answer, Server::AtHand kept)
      : options(wanted), handler(std::move(answer)), at_hand(std::move(kept)) {}

  void listen();
  void accept();
  void beat();
  void send(const std::shared_ptr<const std::string>& text);
  void close();
  Response answer(const Request& request) noexcept;
  std::optional<Response> answer_at_hand(const Request& request) noexcept;

  const ServerOptions options;
  const Server::Handler handler;
  const Server::AtHand at_hand;
  uint16_t port = 0;
  asio::io_context io{1};
  Tcp::acceptor acceptor{io};
  asio::steady_timer retry{io}, heartbeat{io};
  std::set<std::shared_ptr<Connection>> connections;
  std::atomic<size_t> streams = 0;
  std::atomic<bool> warned = false, ended = false;
  Workers workers;
  std::thread thread;
};

// A reader: requests one after the other, or events until it goes.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Tcp::socket socket, std::shared_ptr<ServerState> server)
      : stream_(std::move(socket)), server_(std::move(server)) {}

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(server_->options.header_bytes));
    parser_->body_limit(server_->options.body_bytes);
    stream_.expires_after(server_->options.idle);
    beast::http::async_read(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, size_t) { self->received(error); });
  }

  void send_event(const std::shared_ptr<const std::string>& text) {
    if (!streaming_) return;
    if (events_.size() >= kWaitingEvents) return close();
    events_.push_back(text);
    if (events_.size() == 1) write_event();
  }

  void close() {
    if (std::exchange(streaming_, false)) --server_->streams;
    error_code ignored;
    stream_.socket().shutdown(Tcp::socket::shutdown_both, ignored);
    stream_.close();
    server_->connections.erase(shared_from_this());
  }

 private:
  void received(error_code error) {
    if (error == beast::http::error::header_limit) return refuse(431, "the headers are too long\n");
    if (error == beast::http::error::body_limit) return refuse(413, "the body is too long\n");
    if (error == beast::http::error::end_of_stream || error == beast::error::timeout || error == asio::error::eof ||
        error == asio::error::connection_reset) {
      return close();
    }
    if (error) return refuse(400, "this is no HTTP/1.1 request\n");
    head_ = parser_->get().method() == beast::http::verb::head;
    keep_ = parser_->get().keep_alive();
    auto request = read_request(parser_->release());
    if (!request) return refuse(400, "the address of the request is none\n");
    if (head_) request->method = "GET";
    if (auto response = server_->answer_at_hand(*request)) return respond(std::move(*response));
    stream_.expires_never();  // an answer may take its time
    server_->workers.add([self = weak_from_this(), server = server_, one = std::move(*request)] {
      auto response = std::make_shared<Response>(server->answer(one));
      asio::post(server->io, [self, response] {
        if (const auto here = self.lock()) here->respond(std::move(*response));
      });
    });
  }

  void refuse(int status, std::string why) {
    keep_ = false;
    Response response{status};
    response.body = std::move(why);
    respond(std::move(response));
  }

  void respond(Response response) {
    if (server_->ended) return;
    if (response.events && !head_) {
      if (server_->streams >= server_->options.event_streams) {
        response = {503, "text/plain; charset=utf-8", "too many readers listen for events: ask again and again instead\n"};
      } else {
        return begin_events(std::move(response));
      }
    }
    auto out = std::make_shared<beast::http::response<beast::http::string_body>>();
    fill(*out, response);
    out->keep_alive(keep_);
    out->content_length(response.body.size());
    if (!head_) out->body() = std::move(response.body);
    stream_.expires_after(server_->options.idle);
    beast::http::async_write(stream_, *out, [self = shared_from_this(), out](error_code error, size_t) {
      error || !self->keep_ ? self->close() : self->read();
    });
  }

  template <class Wire>
  static void fill(Wire& out, const Response& response) {
    out.version(11);
    out.result(static_cast<unsigned>(response.status));
    out.set(beast::http::field::content_type, response.type);
    for (const auto& [name, value] : response.headers) out.set(name, value);
  }

  void begin_events(Response response) {
    auto out = std::make_shared<beast::http::response<beast::http::empty_body>>();
    response.type = "text/event-stream";
    fill(*out, response);
    out->set(beast::http::field::cache_control, "no-store");
    out->keep_alive(false);
    ++server_->streams;
    streaming_ = true;
    auto header = std::make_shared<beast::http::response_serializer<beast::http::empty_body>>(*out);
    events_.push_back(std::make_shared<const std::string>(std::move(response.body)));
    beast::http::async_write_header(stream_, *header, [self = shared_from_this(), out, header](error_code error, size_t) {
      if (error) return self->close();
      self->await_end();
      self->write_event();
    });
  }

  // A reader of events has nothing more to say: what comes is its end.
  void await_end() {
    stream_.async_read_some(buffer_.prepare(512), [self = shared_from_this()](error_code error, size_t) {
      error ? self->close() : self->await_end();
    });
  }

  void write_event() {
    stream_.expires_after(server_->options.idle);
    asio::async_write(stream_, asio::buffer(*events_.front()), [self = shared_from_this()](error_code error, size_t) {
      if (!self->streaming_) return;
      if (error) return self->close();
      self->stream_.expires_never();
      self->events_.pop_front();
      if (!self->events_.empty()) self->write_event();
    });
  }

  beast::tcp_stream stream_;
  const std::shared_ptr<ServerState> server_;
  beast::flat_buffer buffer_;
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  bool head_ = false, keep_ = false, streaming_ = false;
  std::deque<std::shared_ptr<const std::string>> events_;  // the first is on its way
};

void ServerState::listen() {
  error_code error;
  const auto address = asio::ip::make_address(options.address, error);
  if (error) throw usage_error(fmt::format("`{}` is no address of an interface", options.address));
  for (int i = 0; i < std::max(1, options.ports); ++i) {
    const Tcp::endpoint endpoint(address, static_cast<uint16_t>(options.port + i));
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) {
      port = acceptor.local_endpoint().port();
      return;
    }
    error_code ignored;
    acceptor.close(ignored);
    if (error != asio::error::address_in_use || options.port + i >= 65535) break;
  }
  throw usage_error(fmt::format("cannot listen at {} port {}: {}", options.address, options.port, error.message()));
}

void ServerState::accept() {
  acceptor.async_accept([self = shared_from_this()](error_code error, Tcp::socket socket) {
    if (self->ended) return;
    if (error) {  // no more files, say: those that are open come first
      self->retry.expires_after(std::chrono::milliseconds(100));
      self->retry.async_wait([self](error_code) { self->accept(); });
      return;
    }
    if (self->connections.size() < self->options.connections) {
      auto connection = std::make_shared<Connection>(std::move(socket), self);
      self->connections.insert(connection);
      connection->read();
    }
    self->accept();
  });
}

void ServerState::beat() {
  heartbeat.expires_after(options.heartbeat);
  heartbeat.async_wait([self = shared_from_this()](error_code) {
    if (self->ended) return;
    self->send(std::make_shared<const std::string>(": still here\n\n"));
    self->beat();
  });
}

void ServerState::send(const std::shared_ptr<const std::string>& text) {
  for (const auto& connection : std::set(connections)) connection->send_event(text);  // which may leave the set
}

void ServerState::close() {
  ended = true;
  error_code ignored;
  acceptor.close(ignored);
  retry.cancel();
  heartbeat.cancel();
  for (const auto& connection : std::set(connections)) connection->close();
}

Response ServerState::answer(const Request& request) noexcept {
  try {
    return handler(request);
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception& error) {
    if (!warned.exchange(true)) log_warning(fmt::format("the page could not answer {}: {}", request.path, error.what()));
    return {500, "text/plain; charset=utf-8", "this program failed to answer; its messages say why\n"};
  }
}

std::optional<Response> ServerState::answer_at_hand(const Request& request) noexcept {
  try {
    return at_hand ? at_hand(request) : std::nullopt;
  } catch (const InternalError&) {
    std::terminate();
  } catch (const std::exception&) {
    return std::nullopt;  // the handler says it
  }
}

Server::Server(const ServerOptions& options, Handler handler, AtHand at_hand)
    : state_(std::make_shared<ServerState>(options, std::move(handler), std::move(at_hand))) {
  state_->listen();
  state_->accept();
  state_->beat();
  try {
    state_->workers.start(kWorkers);
    state_->thread = std::thread([state = state_.get()] {
      become_background_thread("live page");
      state->io.run();
    });
  } catch (const std::system_error& error) {
    state_->workers.finish(kPatience);
    state_->close();
    state_->io.run();
    throw data_error(fmt::format("the system has no threads for a server: {}", error.code().message()));
  }
}

Server::~Server() {
  asio::post(state_->io, [state = state_.get()] { state->close(); });
  state_->thread.join();
  state_->workers.finish(kPatience);
}

uint16_t Server::port() const { return state_->port; }

size_t Server::event_streams() const { return state_->streams; }

void Server::send_event(std::string_view name, std::string_view data) {
  TESSERA_CHECK(data.find('\n') == std::string_view::npos, "an event of several lines");
  auto text = std::make_shared<const std::string>(fmt::format("event: {}\ndata: {}\n\n", name, data));
  asio::post(state_->io, [state = state_.get(), text] { state->send(text); });
}

}  // namespace tessera::http
