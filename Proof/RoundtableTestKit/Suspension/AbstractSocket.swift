#if os(Linux)
    import Glibc

    /// Stream sockets in Linux's abstract namespace (unix(7)). They have no file, and the name is free again when the socket closes.
    enum AbstractSocket {
        /// The environment variable that holds the name of the police's socket, without the leading NUL.
        static let environmentName = "ROUNDTABLE_POLICE"

        static func listen(_ name: String) throws -> Int32 {
            let descriptor = try make()
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
            guard withAddress(name, { bind(descriptor, $0, $1) }) == 0, Glibc.listen(descriptor, 64) == 0 else {
                defer { close(descriptor) }
                throw SuspensionPoliceError("cannot listen at @\(name)", errno: errno)
            }
            return descriptor
        }

        static func connect(_ name: String) throws -> Int32 {
            let descriptor = try make()
            while withAddress(name, { Glibc.connect(descriptor, $0, $1) }) == -1 {
                if errno == EINTR { continue }
                defer { close(descriptor) }
                throw SuspensionPoliceError("cannot connect to the police at @\(name)", errno: errno)
            }
            return descriptor
        }

        /// Accepts the next pending connection; nil if there is none.
        static func accept(_ listener: Int32) -> Int32? {
            let descriptor = Glibc.accept(listener, nil, nil)
            guard descriptor >= 0 else { return nil }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
            return descriptor
        }

        private static func make() throws -> Int32 {
            let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0 else { throw SuspensionPoliceError("socket", errno: errno) }
            return descriptor
        }

        private static func withAddress(_ name: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32
        {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let bytes = Array(name.utf8.prefix(100))
            withUnsafeMutableBytes(of: &address.sun_path) { path in
                for (index, byte) in bytes.enumerated() { path[index + 1] = byte }
            }
            let size = MemoryLayout<sa_family_t>.size + 1 + bytes.count
            return withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(size)) }
            }
        }

        // MARK: Lines

        /// - returns: whether the whole message could be sent.
        @discardableResult
        static func send(_ message: SuspensionMessage, to descriptor: Int32) -> Bool {
            var rest = Array((message.line + "\n").utf8)[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes { bytes in
                    Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
                }
                if count == -1, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }

    /// Splits the bytes that a socket receives into lines.
    struct SocketLines {
        private var rest: [UInt8] = []
        /// The most bytes that are read at once, and the longest line. Any user of the machine can connect to an abstract socket, and must
        /// neither keep its reader busy nor fill its memory.
        static let limit = 1 << 16

        /// Reads the messages that have arrived, without waiting.
        ///
        /// - returns: nil when the other end has closed the connection and everything has been read, or when it sends what is no line.
        mutating func read(_ descriptor: Int32) -> [SuspensionMessage]? {
            var isAtEnd = false
            var buffer = [UInt8](repeating: 0, count: 4096)
            while rest.count < Self.limit {
                let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
                if count == -1, errno == EINTR { continue }
                if count == -1, errno == EAGAIN { break }
                if count <= 0 {
                    isAtEnd = true
                    break
                }
                rest += buffer[..<count]
            }
            var messages: [SuspensionMessage] = []
            if rest.count >= Self.limit, !rest.contains(UInt8(ascii: "\n")) { return nil }
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                if let message = SuspensionMessage(line: String(decoding: rest[..<end], as: UTF8.self)) {
                    messages.append(message)
                }
                rest.removeSubrange(...end)
            }
            return isAtEnd && messages.isEmpty ? nil : messages
        }
    }
#endif
