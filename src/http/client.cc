#include "http/client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <optional>
#include <utility>

namespace tessera::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace tls = asio::ssl;
using Tcp = asio::ip::tcp;
using boost::system::error_code;

// Throws boost::system::system_error where `key` is none.
tls::context context_of(const std::string& key) {
  tls::context context(tls::context::tls_client);
  context.use_certificate(asio::buffer(key), tls::context::pem);
  context.use_private_key(asio::buffer(key), tls::context::pem);  // after it: so OpenSSL compares the two
  context.add_certificate_authority(asio::buffer(key));
  context.set_verify_mode(tls::verify_peer);
  return context;
}

// A connection whose operations end after a time. Beast keeps time only of asynchronous ones, so each is started and waited for.
class TimedConnection {
 public:
  TimedConnection(const Endpoint& to, std::chrono::milliseconds patience) : to_(to), stream_(context_) {
    stream_.expires_after(patience);
    Tcp::resolver resolver(context_);
    error_code failed;
    const auto found = resolver.resolve(to.host, to.port, failed);
    check<NotThere>(failed, "has no address");
    stream_.async_connect(found, [&](error_code code, const Tcp::endpoint&) { failed = code; });
    run();
    check<NotThere>(failed, "cannot be reached");
    stream_.socket().set_option(Tcp::no_delay(true), failed);
    if (!to.key.empty()) shake_hands();
  }

  void send(std::string_view path, std::string body) {
    beast::http::request<beast::http::string_body> request(beast::http::verb::post, {path.data(), path.size()}, 11,
                                                           std::move(body));
    request.set(beast::http::field::host, to_.text());
    request.set(beast::http::field::content_type, "application/json");
    request.prepare_payload();
    error_code failed;
    with_stream([&](auto& stream) {
      beast::http::async_write(stream, request, [&](error_code code, size_t) { failed = code; });
      run();
    });
    check(failed, "did not take a request");
  }
  template <class Parser>
  void read(Parser& parser) {
    error_code failed;
    with_stream([&](auto& stream) {
      beast::http::async_read(stream, buffer_, parser, [&](error_code code, size_t) { failed = code; });
      run();
    });
    check(failed, "did not answer");
  }
  template <class Parser>
  void read_header(Parser& parser) {
    error_code failed;
    with_stream([&](auto& stream) {
      beast::http::async_read_header(stream, buffer_, parser, [&](error_code code, size_t) { failed = code; });
      run();
    });
    check(failed, "did not answer");
  }
  // Waits for ever. False at the end of the connection.
  template <class Parser>
  bool read_some(Parser& parser) {
    error_code failed;
    if (encrypted_) {
      beast::http::read_some(*encrypted_, buffer_, parser, failed);
    } else {
      beast::http::read_some(stream_.socket(), buffer_, parser, failed);
    }
    return !failed;
  }
  // Ends what waits. From any thread.
  void shut_down() { ::shutdown(stream_.socket().native_handle(), SHUT_RDWR); }

 private:
  void shake_hands() {
    error_code failed;
    try {
      tls_.emplace(context_of(to_.key));
    } catch (const boost::system::system_error& error) {
      check(error.code(), "is not reached with this key");
    }
    encrypted_.emplace(stream_, *tls_);
    encrypted_->async_handshake(tls::stream_base::client, [&](error_code code) { failed = code; });
    run();
    check(failed, "does not take part in this key's TLS");
  }
  template <class Fn>
  void with_stream(Fn&& fn) {
    if (encrypted_) {
      fn(*encrypted_);
    } else {
      fn(stream_);
    }
  }
  void run() {
    context_.restart();
    context_.run();
  }
  template <class Failure = ConnectionError>
  void check(const error_code& failed, std::string_view what) const {
    if (failed) throw Failure(fmt::format("{} {}: {}", to_.text(), what, failed.message()));
  }

  const Endpoint to_;
  asio::io_context context_;
  beast::tcp_stream stream_;
  std::optional<tls::context> tls_;
  std::optional<tls::stream<beast::tcp_stream&>> encrypted_;  // what goes over stream_, where there is a key
  beast::flat_buffer buffer_;
};

}  // namespace

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::optional<Endpoint> parse_endpoint(std::string_view text, std::string_view default_port) {
  if (constexpr std::string_view kScheme = "http://"; text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
  if (text.ends_with('/')) text.remove_suffix(1);
  std::string_view host = text, port = default_port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (!text.empty() && text.front() != ':') return std::nullopt;
    if (!text.empty()) port = text.substr(1);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const bool number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string_view::npos;
  if (!number || host.empty() || host.find_first_of("/?#@ ") != std::string_view::npos) return std::nullopt;
  return Endpoint{std::string(host), std::string(port)};
}

bool is_key(const std::string& key) {
  try {
    context_of(key);
    return true;
  } catch (const boost::system::system_error&) {
    return false;
  }
}

Answer post_json(const Endpoint& to, std::string_view path, std::string body, std::chrono::milliseconds patience) {
  TimedConnection connection(to, patience);
  connection.send(path, std::move(body));
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(uint64_t{64} << 20);
  connection.read(parser);
  return {static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

struct LineStream::State {
  State(const Endpoint& to, std::chrono::milliseconds patience) : connection(to, patience) {}

  TimedConnection connection;
  beast::http::response_parser<beast::http::string_body> parser;
  std::string pending;
};

LineStream::LineStream(const Endpoint& to, std::string_view path, std::string body, std::chrono::milliseconds patience)
    : state_(std::make_unique<State>(to, patience)) {
  state_->connection.send(path, std::move(body));
  state_->parser.body_limit(std::numeric_limits<uint64_t>::max());
  state_->connection.read_header(state_->parser);
  if (const unsigned status = state_->parser.get().result_int(); status != 200)
    throw ConnectionError(fmt::format("{} answered {} with status {}", to.text(), path, status));
}

LineStream::~LineStream() = default;

std::optional<std::string> LineStream::next() {
  std::string& body = state_->parser.get().body();
  for (;;) {
    if (const size_t end = state_->pending.find('\n'); end != std::string::npos) {
      std::string line = state_->pending.substr(0, end);
      state_->pending.erase(0, end + 1);
      return line;
    }
    if (state_->parser.is_done()) return std::nullopt;
    if (!state_->connection.read_some(state_->parser)) return std::nullopt;
    state_->pending += body;
    body.clear();
  }
}

void LineStream::close() { state_->connection.shut_down(); }

}  // namespace tessera::http
