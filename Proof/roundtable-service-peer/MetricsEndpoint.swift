#if Service
    import Foundation

    #if canImport(Darwin)
        import Darwin
    #else
        import Glibc
    #endif

    /// Answers each request to a port of the loopback interface with the metrics, as a server does that Prometheus scrapes.
    struct MetricsEndpoint {
        /// A free port, which the system has chosen.
        let port: UInt16
        private let listener: Int32

        init() throws {
            #if canImport(Darwin)
                let type = SOCK_STREAM
            #else
                let type = Int32(SOCK_STREAM.rawValue)
            #endif
            let listener = socket(AF_INET, type, 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
            let isListening = withUnsafeMutablePointer(to: &address) { address in
                address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                    return bind(listener, address, length) == 0 && listen(listener, 8) == 0
                        && getsockname(listener, address, &length) == 0
                }
            }
            guard isListening else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
            self.listener = listener
            port = UInt16(bigEndian: address.sin_port)
        }

        /// Answers one request after the other, on a thread of its own.
        func serve(_ body: @escaping @Sendable () -> String) {
            let listener = listener
            Thread.detachNewThread {
                while true {
                    let connection = accept(listener, nil, nil)
                    guard connection >= 0 else { continue }
                    let file = FileHandle(fileDescriptor: connection, closeOnDealloc: true)
                    // A request ends with an empty line. Its path does not matter.
                    var request = Data()
                    while request.range(of: Data("\r\n\r\n".utf8)) == nil {
                        let more = file.availableData
                        if more.isEmpty { break }
                        request += more
                    }
                    let text = Data(body().utf8)
                    let head = [
                        "HTTP/1.1 200 OK", "Content-Type: text/plain; version=0.0.4", "Content-Length: \(text.count)",
                        "Connection: close", "", "",
                    ]
                    try? file.write(contentsOf: Data(head.joined(separator: "\r\n").utf8) + text)
                }
            }
        }
    }
#endif
